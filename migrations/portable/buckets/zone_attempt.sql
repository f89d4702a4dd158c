-- The answers to checks with an attempt_id, for as long as a retry gets the same answer. Ids are compared
-- byte by byte: 'a' and 'a ' are two attempts.
--
-- bucket_key puts the row beside one of the check's buckets. On shards that is a bucket on the shard that
-- commits last, and an attempt_id is unique for one bucket_key; elsewhere it is unique in the table.
CREATE TABLE IF NOT EXISTS zone_attempt (
  attempt_id VARBINARY(64) NOT NULL,
  bucket_key VARCHAR(255) CHARACTER SET utf8mb4 COLLATE utf8mb4_0900_bin NOT NULL
    COMMENT 'of one of the check''s buckets',
  created_at DATETIME(6) NOT NULL COMMENT 'UTC',
  expires_at DATETIME(6) NOT NULL COMMENT 'UTC: from then on the row means nothing and may be deleted',
  answer     JSON NOT NULL
    COMMENT 'for each bucket: zone_id bucket_key blocked would_block txn_id rate window velocity remaining retry_after reason override_id',
  PRIMARY KEY (attempt_id, bucket_key),
  /*U! UNIQUE KEY zone_attempt_id (attempt_id), */
  KEY zone_attempt_expiry (expires_at)
) ENGINE = InnoDB COMMENT = 'what was answered to checks with an attempt_id, for their retries'
