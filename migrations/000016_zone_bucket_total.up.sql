-- The attempts of each bucket by hour, day, month and in all, in zones with totals. It outlives the txns.
CREATE TABLE zone_bucket_total (
  zone_id     INT NOT NULL,
  bucket_key  VARCHAR(255) CHARACTER SET utf8mb4 COLLATE /*!80017 utf8mb4_0900_bin */ /*M! utf8mb4_nopad_bin */ NOT NULL,
  span        ENUM('all', 'month', 'day', 'hour') CHARACTER SET ascii NOT NULL,
  begins_at   DATETIME NOT NULL COMMENT 'UTC: begin of the span; of all: 1970-01-01',
  attempts    BIGINT NOT NULL,
  allowed     BIGINT NOT NULL,
  blocked     BIGINT NOT NULL,
  would_block BIGINT NOT NULL,
  successes   BIGINT NOT NULL,
  failures    BIGINT NOT NULL,
  last_at     DATETIME(6) NOT NULL COMMENT 'UTC: the newest attempt',
  PRIMARY KEY (zone_id, bucket_key, span, begins_at),
  KEY zone_bucket_total_age (span, begins_at)
) ENGINE = InnoDB COMMENT = 'kept by velocityd: attempts of each bucket, in zones with totals'
