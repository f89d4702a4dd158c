ALTER TABLE zone_bucket_lock
  DROP CONSTRAINT zone_bucket_lock_key,
  ADD CONSTRAINT zone_bucket_lock_key CHECK (bucket_key <> '' AND bucket_key NOT REGEXP '[[:cntrl:]]')
