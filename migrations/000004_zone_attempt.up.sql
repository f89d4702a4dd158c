-- The answers to checks with an attempt_id, for as long as a
-- retry is to get the same answer. Compared byte by byte: 'a' and 'a ' are two
-- attempts.
--
-- On Vitess and TiDB the row has the key of one of the check's buckets. On Vitess this key puts the row on
-- the shard that commits last, and an attempt_id is unique within a bucket_key. On TiDB an attempt_id is
-- unique in the table.
CREATE TABLE zone_attempt (
  attempt_id VARBINARY(64) NOT NULL,
  -- on Vitess and TiDB: bucket_key VARCHAR(255) CHARACTER SET utf8mb4 COLLATE utf8mb4_0900_bin NOT NULL COMMENT 'of one of the check''s buckets',
  created_at DATETIME(6) NOT NULL COMMENT 'UTC',
  expires_at DATETIME(6) NOT NULL COMMENT 'UTC: from then on the row means nothing and may be deleted',
  answer     JSON NOT NULL
    COMMENT 'for each bucket [zone_id, bucket_key, blocked, would_block, txn_id, rate, window, velocity, remaining, retry_after, reason, override_id]',
  PRIMARY KEY (attempt_id), -- not on Vitess and TiDB
  -- on Vitess and TiDB: PRIMARY KEY (attempt_id, bucket_key),
  -- on TiDB: UNIQUE KEY zone_attempt_id (attempt_id),
  KEY zone_attempt_expiry (expires_at)
) ENGINE = InnoDB COMMENT = 'what was answered to checks with an attempt_id, for their retries'
