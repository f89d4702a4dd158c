-- What the service answers to the checks of a zone while it cannot reach the database, or the
-- database cannot decide. Procedures do not read it: a caller by SQL has no answer then anyway.
ALTER TABLE zone_master
  ADD COLUMN on_failure ENUM('error', 'allow', 'block') CHARACTER SET ascii NOT NULL DEFAULT 'error'
    COMMENT 'what the service answers while the database is away: error (503, the caller decides); allow or block, recorded nowhere'
    AFTER ipv6_prefix,
  ADD CONSTRAINT `on_failure must be error, allow or block`
    CHECK (on_failure <> '')
