-- The attempts of each zone and hour, counted once. It outlives the txns.
CREATE TABLE zone_hour (
  zone_id     INT NOT NULL,
  hour        DATETIME NOT NULL COMMENT 'UTC: its begin',
  attempts    BIGINT NOT NULL,
  allowed     BIGINT NOT NULL,
  blocked     BIGINT NOT NULL,
  would_block BIGINT NOT NULL COMMENT 'attempts for which the bucket had no room, whether or not the zone was enforced',
  successes   BIGINT NOT NULL,
  failures    BIGINT NOT NULL,
  buckets     BIGINT NULL DEFAULT NULL COMMENT 'how many buckets were asked for; NULL until the hour is final',
  final       BOOLEAN NOT NULL DEFAULT FALSE COMMENT 'counted for the second and last time, with the outcomes that came late',
  PRIMARY KEY (zone_id, hour),
  KEY zone_hour_time (hour)
) ENGINE = InnoDB COMMENT = 'kept by velocityd: attempts of each zone and hour'
