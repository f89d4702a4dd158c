-- The events that a webhook has not received at the first try. The key of a bucket is in zone_event alone.
CREATE TABLE webhook_delivery (
  webhook_id BIGINT UNSIGNED NOT NULL,
  event_id   BIGINT UNSIGNED NOT NULL,
  tries      INT UNSIGNED NOT NULL DEFAULT 0 COMMENT '0: it waits behind another one of its bucket',
  next_at    DATETIME(6) NULL DEFAULT NULL COMMENT 'UTC: not tried again before; NULL: it is tried no more',
  error      VARCHAR(255) CHARACTER SET utf8mb4 /*T! COLLATE utf8mb4_0900_ai_ci */ NOT NULL DEFAULT '' COMMENT 'of the last try',
  PRIMARY KEY (webhook_id, event_id),
  KEY webhook_delivery_next (next_at)
) ENGINE = InnoDB COMMENT = 'kept by velocityd: events that webhooks have not received'
