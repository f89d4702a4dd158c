ALTER TABLE zone_bucket_lock
  DROP COLUMN locked_until,
  DROP COLUMN lockout_us
