-- The names of the constraints are the rules in words, as in zone_master: both engines
-- show the name when they refuse a row. A prefix as long as the zone's buckets is kept
-- as the bucket_key of one since derive_target.
ALTER TABLE zone_override
  MODIFY COLUMN prefix VARCHAR(43) CHARACTER SET ascii NULL DEFAULT NULL
    COMMENT 'in ip zones: a network such as 203.0.113.0/24, shorter than the zone''s buckets; NULL if a bucket_key is given',
  DROP CONSTRAINT zone_override_target,
  DROP CONSTRAINT zone_override_text,
  DROP CONSTRAINT zone_override_action,
  DROP CONSTRAINT zone_override_expiry,
  DROP CONSTRAINT zone_override_limit,
  ADD CONSTRAINT `give either bucket_key or prefix`
    CHECK ((bucket_key IS NULL) <> (prefix IS NULL)),
  ADD CONSTRAINT `bucket_key must not be empty or have control characters`
    CHECK (bucket_key IS NULL OR (bucket_key <> '' AND bucket_key NOT REGEXP '[[:cntrl:]]')),
  ADD CONSTRAINT `action must be allow, deny or limit`
    CHECK (action <> ''),
  ADD CONSTRAINT `expires_at must be in the years 1970 to 2199, or NULL`
    CHECK (expires_at IS NULL OR (expires_at >= '1970-01-01' AND expires_at < '2200-01-01')),
  ADD CONSTRAINT `limit needs rate 0 to 1000000, window 1 to 31622400, others none`
    CHECK (
    (action = 'limit' AND rate IS NOT NULL AND rate BETWEEN 0 AND 1000000
       AND `window` IS NOT NULL AND `window` BETWEEN 1 AND 31622400)
    OR (action <> 'limit' AND rate IS NULL AND `window` IS NULL))
