-- Which txn ids belong to which time: zone_txn has no index on created_at, and a look-up by id alone would
-- look into each of its partitions. Times of ids that no mark is near are found by a search over the ids.
CREATE TABLE zone_txn_mark (
  txn_id    BIGINT UNSIGNED NOT NULL
    COMMENT 'the highest id at marked_at: its txn and those with lower ids were decided before, those with higher ids at most some seconds before',
  marked_at DATETIME(6) NOT NULL COMMENT 'UTC',
  PRIMARY KEY (txn_id),
  KEY zone_txn_mark_time (marked_at)
) ENGINE = InnoDB COMMENT = 'kept by velocityd: which ids zone_txn had at a time'
