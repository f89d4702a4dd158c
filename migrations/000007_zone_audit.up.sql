-- Every change of a zone or an override, and every release of a bucket, whoever
-- made it: written by triggers and by release_bucket.
CREATE TABLE zone_audit (
  id           BIGINT UNSIGNED NOT NULL AUTO_INCREMENT,
  changed_at   DATETIME(6) NOT NULL COMMENT 'UTC',
  changed_by   VARCHAR(384) CHARACTER SET utf8mb4 NOT NULL COMMENT 'the account of the session',
  principal    VARCHAR(128) CHARACTER SET utf8mb4 NULL DEFAULT NULL
    COMMENT 'on whose behalf, as the service or the session itself said in @velocityd_principal',
  subject      ENUM('zone', 'override', 'bucket') CHARACTER SET ascii NOT NULL,
  action       ENUM('insert', 'update', 'delete', 'release') CHARACTER SET ascii NOT NULL,
  zone_id      INT NOT NULL,
  override_id  BIGINT UNSIGNED NULL DEFAULT NULL,
  state_before JSON NULL,
  state_after  JSON NULL,
  PRIMARY KEY (id),
  KEY zone_audit_zone (zone_id, id)
) ENGINE = InnoDB COMMENT = 'every change of a zone or an override, and every release of a bucket'
