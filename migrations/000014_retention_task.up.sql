-- The last runs of the runner of retention, one row for each of its tasks.
CREATE TABLE retention_task (
  name     VARCHAR(32) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  began_at DATETIME(6) NOT NULL COMMENT 'UTC: begin of the last run',
  ended_at DATETIME(6) NULL DEFAULT NULL COMMENT 'UTC: end of the last run; NULL while it runs, or if its runner was ended',
  succeeded_at DATETIME(6) NULL DEFAULT NULL COMMENT 'UTC: end of the last run without an error',
  removed  BIGINT UNSIGNED NOT NULL DEFAULT 0 COMMENT 'rows that the last run removed or changed',
  backlog  BOOLEAN NOT NULL DEFAULT FALSE COMMENT 'the last run left work for the next one',
  position VARCHAR(512) CHARACTER SET utf8mb4 COLLATE /*!80017 utf8mb4_0900_bin */ /*M! utf8mb4_nopad_bin */ NOT NULL DEFAULT ''
    COMMENT 'where the next run goes on',
  error    VARCHAR(512) CHARACTER SET utf8mb4 /*T! COLLATE utf8mb4_0900_ai_ci */ NOT NULL DEFAULT ''
    COMMENT 'of the last run; empty: none',
  PRIMARY KEY (name)
) ENGINE = InnoDB COMMENT = 'kept by velocityd: the last run of each task of retention'
