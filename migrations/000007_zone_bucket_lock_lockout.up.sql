-- A bucket's row carries its last lockout besides being its mutex: the lockout's
-- end, and its length in microseconds, from which the next one grows.
ALTER TABLE zone_bucket_lock
  ADD COLUMN locked_until DATETIME(6) NULL DEFAULT NULL COMMENT 'UTC',
  ADD COLUMN lockout_us   BIGINT NOT NULL DEFAULT 0
