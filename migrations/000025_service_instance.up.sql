-- The instances that serve, as each says of itself every few seconds. No decision depends on it.
CREATE TABLE service_instance (
  name       VARCHAR(32) CHARACTER SET ascii COLLATE ascii_bin NOT NULL COMMENT 'drawn by chance at each start',
  host       VARCHAR(255) CHARACTER SET utf8mb4 /*T! COLLATE utf8mb4_0900_ai_ci */ NOT NULL DEFAULT '',
  version    VARCHAR(64) CHARACTER SET ascii NOT NULL DEFAULT '',
  started_at DATETIME(6) NOT NULL COMMENT 'UTC: the first sign of the instance',
  seen_at    DATETIME(6) NOT NULL COMMENT 'UTC: the last sign; after a day without one an instance that starts deletes the row',
  allowed    BIGINT UNSIGNED NOT NULL DEFAULT 0 COMMENT 'checks since the start; 0 if the instance counts none',
  blocked    BIGINT UNSIGNED NOT NULL DEFAULT 0,
  undecided  BIGINT UNSIGNED NOT NULL DEFAULT 0,
  PRIMARY KEY (name)
) ENGINE = InnoDB COMMENT = 'kept by velocityd: the instances that serve'
