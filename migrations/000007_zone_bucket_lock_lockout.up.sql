-- A bucket's row carries its last lockout besides being its mutex: the lockout's
-- end, and its length in microseconds, from which the next one grows.
--
-- The CHECK has no backslash any more: MySQL reads it under the sql_mode of whoever
-- opens the table first, and with NO_BACKSLASH_ESCAPES it refused ordinary keys for
-- all sessions.
ALTER TABLE zone_bucket_lock
  ADD COLUMN locked_until DATETIME(6) NULL DEFAULT NULL COMMENT 'UTC',
  ADD COLUMN lockout_us   BIGINT NOT NULL DEFAULT 0,
  DROP CONSTRAINT zone_bucket_lock_key,
  ADD CONSTRAINT zone_bucket_lock_key CHECK (bucket_key <> '' AND bucket_key NOT REGEXP '[[:cntrl:]]')
