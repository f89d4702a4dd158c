-- Which txn ids belong to which time: zone_txn has no index on created_at, and a look-up by id alone would
-- look into each of its partitions. Times of ids that no mark is near are found by a search over the ids.
CREATE TABLE zone_txn_mark (
  txn_id    BIGINT UNSIGNED NOT NULL
    COMMENT 'the highest id at marked_at: txns up to it were decided before, and those with higher ids later, but for some seconds',
  marked_at DATETIME(6) NOT NULL COMMENT 'UTC',
  PRIMARY KEY (txn_id),
  KEY zone_txn_mark_time (marked_at)
) ENGINE = InnoDB COMMENT = 'kept by velocityd: which ids zone_txn had at a time'
