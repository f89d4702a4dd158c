ALTER TABLE zone_bucket_lock
  ADD COLUMN tally       INT UNSIGNED NULL DEFAULT NULL COMMENT 'how many counted txns of the bucket have created_at in (tally_from, tally_until]',
  ADD COLUMN tally_from  DATETIME(6) NULL DEFAULT NULL COMMENT 'UTC',
  ADD COLUMN tally_until DATETIME(6) NULL DEFAULT NULL COMMENT 'UTC; NULL: there is no tally',
  ADD COLUMN tallied_at  DATETIME(6) NULL DEFAULT NULL COMMENT 'UTC: when they were last counted one by one',
  COMMENT = 'one row a bucket seen: its mutex, its last lockout and its tally'
