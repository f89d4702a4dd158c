-- What was answered to the checks that gave an attempt_id, for as long as a
-- retry is to get the same answer. Rows past expires_at mean nothing and may be
-- deleted at any time. Compared byte by byte: 'a' and 'a ' are two attempts.
--
-- answer: a JSON array with one element for each bucket:
--   [zone_id, bucket_key, blocked, would_block, txn_id, rate, window, velocity,
--    remaining, retry_after]
CREATE TABLE zone_attempt (
  attempt_id VARBINARY(64) NOT NULL,
  created_at DATETIME(6) NOT NULL COMMENT 'UTC',
  expires_at DATETIME(6) NOT NULL COMMENT 'UTC',
  answer     JSON NOT NULL,
  PRIMARY KEY (attempt_id),
  KEY zone_attempt_expiry (expires_at)
) ENGINE = InnoDB
