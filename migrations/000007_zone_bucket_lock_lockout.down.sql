ALTER TABLE zone_bucket_lock
  DROP COLUMN locked_until,
  DROP COLUMN lockout_us,
  DROP CONSTRAINT zone_bucket_lock_key,
  ADD CONSTRAINT zone_bucket_lock_key CHECK (bucket_key <> '' AND bucket_key NOT REGEXP '[\\x{00}-\\x{1F}\\x{7F}-\\x{9F}]')
