-- The back-tests that instances make for callers. Any instance tells their state, and their result for a week.
CREATE TABLE zone_backtest (
  id         VARCHAR(32) CHARACTER SET ascii COLLATE ascii_bin NOT NULL COMMENT 'drawn by chance',
  zone_id    INT NOT NULL,
  state      ENUM('running', 'done', 'failed', 'cancelled') CHARACTER SET ascii NOT NULL
    COMMENT 'running, without a sign for a minute, means that its instance is gone',
  question   JSON NOT NULL COMMENT 'as the program writes it',
  asked_by   VARCHAR(128) CHARACTER SET utf8mb4 /*T! COLLATE utf8mb4_0900_ai_ci */ NOT NULL DEFAULT '' COMMENT 'principal',
  began_at   DATETIME(6) NOT NULL COMMENT 'UTC',
  seen_at    DATETIME(6) NOT NULL COMMENT 'UTC: the last sign of its instance',
  ended_at   DATETIME(6) NULL DEFAULT NULL COMMENT 'UTC',
  txns_read  BIGINT NOT NULL DEFAULT 0,
  read_to    DATETIME(6) NULL DEFAULT NULL COMMENT 'UTC: the instant of the last of them',
  fault      VARCHAR(255) CHARACTER SET utf8mb4 /*T! COLLATE utf8mb4_0900_ai_ci */ NOT NULL DEFAULT ''
    COMMENT 'why it failed or was cancelled',
  result     JSON NULL COMMENT 'as the program writes it; it names no key',
  PRIMARY KEY (id),
  KEY zone_backtest_began (began_at)
) ENGINE = InnoDB COMMENT = 'kept by velocityd: back-tests that instances make for callers'
