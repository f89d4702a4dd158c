-- The credentials of HTTP callers: tokens, and the subjects of client certificates. No token can be made
-- from a row. Rows are never deleted, so that the names in zone_audit can be looked up: revoked_at ends a
-- credential.
CREATE TABLE access_token (
  id           BIGINT UNSIGNED NOT NULL AUTO_INCREMENT,
  kind         ENUM('token', 'certificate') CHARACTER SET ascii NOT NULL,
  name         VARCHAR(48) CHARACTER SET ascii COLLATE ascii_bin NOT NULL
    COMMENT 'who the caller is: the principal in zone_audit. Two rows that hold may share it, while one takes the other''s place',
  digest       BINARY(32) NOT NULL
    COMMENT 'SHA-256 of the token, or of ''certificate '' and the subject',
  shown        VARCHAR(8) CHARACTER SET ascii COLLATE ascii_bin NULL DEFAULT NULL
    COMMENT 'the first characters of a token, to tell it by; NULL for a certificate',
  subject      VARCHAR(512) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NULL DEFAULT NULL
    COMMENT 'of a client certificate, as in RFC 2253; NULL for a token',
  scopes       SET('check', 'report', 'peek', 'release', 'zones', 'overrides', 'history', 'metrics', 'admin') CHARACTER SET ascii NOT NULL
    COMMENT 'what the caller may do; admin: everything',
  zones        VARCHAR(2815) CHARACTER SET ascii COLLATE ascii_bin NULL DEFAULT NULL
    COMMENT 'ids of the zones in which the scopes hold, as 1,2,7 for FIND_IN_SET; NULL: all zones',
  expires_at   DATETIME(6) NULL DEFAULT NULL COMMENT 'UTC: the first instant at which the row does not hold any more; NULL: never',
  created_at   DATETIME(6) NOT NULL
    DEFAULT (UTC_TIMESTAMP(6)) -- not on TiDB, which takes no default in UTC
    COMMENT 'UTC',
  created_by   VARCHAR(128) CHARACTER SET utf8mb4 /*T! COLLATE utf8mb4_0900_ai_ci */ NOT NULL,
  last_used_at DATETIME(6) NULL DEFAULT NULL COMMENT 'UTC, to about a minute: the one column that the service writes',
  revoked_at   DATETIME(6) NULL DEFAULT NULL COMMENT 'UTC; NULL: not revoked',
  revoked_by   VARCHAR(128) CHARACTER SET utf8mb4 /*T! COLLATE utf8mb4_0900_ai_ci */ NULL DEFAULT NULL,
  PRIMARY KEY (id),
  KEY access_token_name (name),
  KEY access_token_holds (revoked_at, expires_at),
  CONSTRAINT `kind must be token or certificate`
    CHECK (kind <> ''),
  CONSTRAINT `name must be a letter, then at most 47 letters, digits, - . _ @`
    CHECK (name REGEXP '^[A-Za-z][-A-Za-z0-9._@]{0,47}$' AND name NOT REGEXP '[[:cntrl:]]'),
  CONSTRAINT `a token needs shown, a certificate needs subject`
    CHECK ((kind = 'token' AND shown IS NOT NULL AND subject IS NULL)
      OR (kind = 'certificate' AND subject IS NOT NULL AND subject <> '' AND shown IS NULL)),
  CONSTRAINT `scopes must not be empty`
    CHECK (scopes <> ''),
  CONSTRAINT `zones must be ids such as 1,2,7, or NULL`
    CHECK (zones IS NULL OR (zones REGEXP '^[1-9][0-9]{0,9}(,[1-9][0-9]{0,9})*$' AND zones NOT REGEXP '[[:cntrl:]]')),
  CONSTRAINT `expires_at of a token must be in the years 1970 to 2199, or NULL`
    CHECK (expires_at IS NULL OR (expires_at >= '1970-01-01' AND expires_at < '2200-01-01')),
  CONSTRAINT `revoked_at and revoked_by belong together`
    CHECK ((revoked_at IS NULL) = (revoked_by IS NULL))
) ENGINE = InnoDB /*T![auto_id_cache] AUTO_ID_CACHE = 1 */
  COMMENT = 'tokens and client certificates by which callers of the HTTP interface are known; written by velocityd token'
