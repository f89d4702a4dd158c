-- How long rows are kept. It has one row, which a DBA edits.
CREATE TABLE retention_policy (
  id           INT NOT NULL,
  keep_days    INT NOT NULL DEFAULT 400
    COMMENT 'days for which attempts are kept; a zone may keep them longer; 0: for ever',
  minimum_days INT NOT NULL DEFAULT 30
    COMMENT 'attempts are kept so many days at least, whatever keep_days says; only the owner of the schema may change it',
  audit_days   INT NOT NULL DEFAULT 0
    COMMENT 'days for which zone_audit is kept; 0: for ever',
  event_days   INT NOT NULL DEFAULT 30
    COMMENT 'days for which zone_event is kept; 0: for ever',
  PRIMARY KEY (id),
  CONSTRAINT `retention_policy has one row, with id 1`
    CHECK (id = 1),
  CONSTRAINT `keep_days must be 0 to 36500`
    CHECK (keep_days BETWEEN 0 AND 36500),
  CONSTRAINT `minimum_days must be 1 to 36500`
    CHECK (minimum_days BETWEEN 1 AND 36500),
  CONSTRAINT `audit_days must be 0 to 36500`
    CHECK (audit_days BETWEEN 0 AND 36500),
  CONSTRAINT `event_days must be 0 to 36500`
    CHECK (event_days BETWEEN 0 AND 36500)
) ENGINE = InnoDB COMMENT = 'how long rows are kept: one row, edited by DBAs'
