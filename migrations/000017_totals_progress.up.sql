-- How far the attempts are counted in zone_hour and zone_bucket_total. It has one row, which each roll-up locks, so that
-- no attempt is added twice. Retention drops no txn from final_to on.
CREATE TABLE totals_progress (
  id           INT NOT NULL,
  rolled_up_to DATETIME(6) NOT NULL COMMENT 'UTC: attempts before it are counted, those from it on are not',
  final_to     DATETIME NOT NULL COMMENT 'UTC: the hours before it are final',
  part         INT NOT NULL DEFAULT 0 COMMENT 'how many steps of the second count of the hour at final_to are done',
  pass         BIGINT NOT NULL DEFAULT 0 COMMENT 'counts the writes: a run that finds another number gives up',
  PRIMARY KEY (id),
  CONSTRAINT `totals_progress has one row, with id 1`
    CHECK (id = 1)
) ENGINE = InnoDB COMMENT = 'kept by velocityd: how far attempts are counted in totals'
