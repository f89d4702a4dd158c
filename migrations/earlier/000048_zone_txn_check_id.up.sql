ALTER TABLE zone_txn
  ADD COLUMN check_id BIGINT UNSIGNED NULL DEFAULT NULL
    COMMENT 'what the txns of one check of several buckets share; otherwise NULL'
    AFTER attempt_id
