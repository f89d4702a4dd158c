-- The lockouts that have begun and not ended, of zones that enforce: the list of locked buckets. It is written beside
-- zone_event when a lockout begins, loses a row when the bucket is released, and when a task of retention notes that the
-- lockout ended by time. Decisions do not read it: zone_bucket_lock has the truth. So a lockout that a zone switched off
-- is here until it would have ended.
--
-- A lockout can begin before the task has noted the end of the one before, so locked_at is part of the key. At most one row
-- of a bucket ends after now.
--
-- The locked buckets of a zone are listed by the id of the txn, the newest lockout first: an index on it costs the attempts that
-- begin a lockout a little, and no others.
CREATE TABLE zone_lockout (
  zone_id      INT NOT NULL,
  bucket_key   VARCHAR(255) CHARACTER SET utf8mb4 COLLATE /*!80017 utf8mb4_0900_bin */ /*M! utf8mb4_nopad_bin */ NOT NULL,
  locked_at    DATETIME(6) NOT NULL COMMENT 'UTC: begin',
  locked_until DATETIME(6) NOT NULL COMMENT 'UTC: end, unless the bucket is released before',
  reason       ENUM('full', 'locked', 'lockout', 'denied', 'elsewhere') CHARACTER SET ascii NOT NULL DEFAULT 'lockout'
    COMMENT 'that of the txn',
  txn_id       BIGINT UNSIGNED NOT NULL COMMENT 'the attempt with which it began',
  is_ending    BOOLEAN NOT NULL DEFAULT FALSE COMMENT 'set by the transaction that notes the end and deletes the row',
  PRIMARY KEY (zone_id, bucket_key, locked_at),
  KEY zone_lockout_end (locked_until),
  KEY zone_lockout_txn (zone_id, txn_id DESC)
) ENGINE = InnoDB COMMENT = 'kept by velocityd: lockouts that have begun and not ended'
