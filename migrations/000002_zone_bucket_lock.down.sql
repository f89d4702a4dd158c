DROP TABLE zone_bucket_lock
