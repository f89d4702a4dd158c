-- The answers to checks with an attempt_id, for as long as a retry gets the same answer. Ids are compared
-- byte by byte: 'a' and 'a ' are two attempts.
CREATE TABLE zone_attempt (
  attempt_id VARBINARY(64) NOT NULL,
  created_at DATETIME(6) NOT NULL COMMENT 'UTC',
  expires_at DATETIME(6) NOT NULL COMMENT 'UTC: from then on the row means nothing and may be deleted',
  answer     JSON NOT NULL
    COMMENT 'for each bucket: zone_id bucket_key blocked would_block txn_id rate window velocity remaining retry_after reason override_id',
  PRIMARY KEY (attempt_id),
  KEY zone_attempt_expiry (expires_at)
) ENGINE = InnoDB COMMENT = 'what was answered to checks with an attempt_id, for their retries'
