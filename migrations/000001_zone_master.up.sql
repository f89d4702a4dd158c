-- A zone is a use case with a limit: at most `rate` allowed attempts in any
-- interval of `window` seconds, for each bucket by itself. DBAs write this table
-- with plain SQL; a change takes effect at the next check.
--
-- rate and window may be NULL as columns and are refused by CHECK: NOT NULL
-- alone would let a session without strict mode turn NULL into 0.
CREATE TABLE zone_master (
  id          INT          NOT NULL,
  description VARCHAR(255) CHARACTER SET utf8mb4 NOT NULL DEFAULT '',
  rate        INT,
  `window`    INT          COMMENT 'seconds',
  PRIMARY KEY (id),
  CONSTRAINT zone_master_id     CHECK (id >= 1),
  CONSTRAINT zone_master_rate   CHECK (rate IS NOT NULL AND rate BETWEEN 0 AND 1000000),
  CONSTRAINT zone_master_window CHECK (`window` IS NOT NULL AND `window` BETWEEN 1 AND 31622400)
) ENGINE = InnoDB
