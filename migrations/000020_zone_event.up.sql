-- Events for followers: lockouts that begin and end, releases, and changes of zones,
-- overrides and tokens. A row is written in the transaction of its cause, so a change that was rolled back has none. Its
-- id does not tell when it was committed: readers stay five seconds behind created_at.
--
-- The ids of one bucket's rows are in the order in which things happened to it, because its lock is held when they are given.
CREATE TABLE zone_event (
  id         BIGINT UNSIGNED NOT NULL
    AUTO_INCREMENT -- not on Vitess, where ids come from zone_txn_seq
    COMMENT 'later events of a bucket have higher ones',
  created_at DATETIME(6) NOT NULL COMMENT 'UTC',
  type       VARCHAR(32) CHARACTER SET ascii COLLATE ascii_bin NOT NULL COMMENT 'such as bucket.locked: see api/events.schema.json',
  zone_id    INT NOT NULL DEFAULT 0 COMMENT '0 where no zone is concerned',
  bucket_key VARCHAR(255) CHARACTER SET utf8mb4 COLLATE /*!80017 utf8mb4_0900_bin */ /*M! utf8mb4_nopad_bin */ NOT NULL DEFAULT ''
    COMMENT 'empty where no bucket is concerned',
  txn_id     BIGINT UNSIGNED NULL DEFAULT NULL COMMENT 'the attempt that caused it',
  data       JSON NOT NULL COMMENT 'what belongs to its type',
  PRIMARY KEY (id),
  KEY zone_event_bucket (zone_id, bucket_key)
) ENGINE = InnoDB /*T![auto_id_cache] AUTO_ID_CACHE = 1 */
  COMMENT = 'lockouts that begin and end, releases, changes of zones, overrides and tokens: for those who follow and for webhooks'
