-- Every change of a zone, an override, a token or a webhook, every release of a bucket, every export of the history and every
-- erasure of a key, by any account: written by triggers, by release_bucket, by note_export and by velocityd subject erase. Vitess and
-- TiDB have neither: there, velocityd writes the row in the transaction of its own change, and changes by other writers are
-- not here.
CREATE TABLE zone_audit (
  id           BIGINT UNSIGNED NOT NULL AUTO_INCREMENT,
  changed_at   DATETIME(6) NOT NULL COMMENT 'UTC',
  changed_by   VARCHAR(384) CHARACTER SET utf8mb4 /*T! COLLATE utf8mb4_0900_ai_ci */ NOT NULL COMMENT 'the account of the session',
  principal    VARCHAR(128) CHARACTER SET utf8mb4 /*T! COLLATE utf8mb4_0900_ai_ci */ NULL DEFAULT NULL
    COMMENT 'on whose behalf, as the service said or, where there are triggers, the session in @velocityd_principal',
  reason       VARCHAR(255) CHARACTER SET utf8mb4 /*T! COLLATE utf8mb4_0900_ai_ci */ NULL DEFAULT NULL
    COMMENT 'of an edit, as the service said or, where there are triggers, the session in @velocityd_reason',
  subject      ENUM('zone', 'override', 'bucket', 'history', 'token', 'webhook') CHARACTER SET ascii NOT NULL,
  action       ENUM('insert', 'update', 'delete', 'release', 'export', 'erase') CHARACTER SET ascii NOT NULL,
  zone_id      INT NOT NULL COMMENT '0 for an export of several zones, for a token and for a webhook',
  override_id  BIGINT UNSIGNED NULL DEFAULT NULL,
  state_before JSON NULL,
  state_after  JSON NULL,
  PRIMARY KEY (id),
  KEY zone_audit_zone (zone_id, id),
  KEY zone_audit_changed (changed_at)
) ENGINE = InnoDB /*T![auto_id_cache] AUTO_ID_CACHE = 1 */
  COMMENT = 'every change of a zone, an override, a token or a webhook, release of a bucket, export of the history and erasure of a key'
