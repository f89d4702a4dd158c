-- The receivers of events by HTTP. Only the service reads the secrets: people have the view read_webhook.
CREATE TABLE webhook (
  id           BIGINT UNSIGNED NOT NULL AUTO_INCREMENT,
  url          VARCHAR(1024) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  types        VARCHAR(512) CHARACTER SET ascii COLLATE ascii_bin NOT NULL DEFAULT ''
    COMMENT 'types of events, as bucket.locked,zone.*; empty: all',
  zones        VARCHAR(1024) CHARACTER SET ascii COLLATE ascii_bin NOT NULL DEFAULT '' COMMENT 'ids of zones, as 1,2,7; empty: all',
  description  VARCHAR(255) CHARACTER SET utf8mb4 /*T! COLLATE utf8mb4_0900_ai_ci */ NOT NULL DEFAULT '',
  secret       VARCHAR(64) CHARACTER SET ascii COLLATE ascii_bin NOT NULL
    COMMENT 'the key of the signatures, as Standard Webhooks writes it',
  created_at   DATETIME(6) NOT NULL COMMENT 'UTC',
  created_by   VARCHAR(128) CHARACTER SET utf8mb4 /*T! COLLATE utf8mb4_0900_ai_ci */ NOT NULL,
  position     BIGINT UNSIGNED NOT NULL COMMENT 'id of the last event that was looked at',
  succeeded_at DATETIME(6) NULL DEFAULT NULL COMMENT 'UTC: when the receiver took an event last',
  failed_at    DATETIME(6) NULL DEFAULT NULL COMMENT 'UTC: when it did not take one last',
  error        VARCHAR(255) CHARACTER SET utf8mb4 /*T! COLLATE utf8mb4_0900_ai_ci */ NOT NULL DEFAULT ''
    COMMENT 'why, in the last round; empty: none failed',
  resent_at    DATETIME(6) NULL DEFAULT NULL COMMENT 'UTC: when somebody had its dead deliveries sent again last',
  PRIMARY KEY (id)
) ENGINE = InnoDB /*T![auto_id_cache] AUTO_ID_CACHE = 1 */ COMMENT = 'receivers of events; written by velocityd webhook'
