-- Every attempt, allowed or blocked, one row for each bucket it names.
--
-- blocked:  the attempt was not let through, by this bucket or by another one of
--           the same check.
-- exceeded: this bucket itself had no room.
-- counted:  the txn takes one of the bucket's `rate` places while it is in the
--           window.
--
-- The primary key ends in created_at and there is no foreign key, so that the
-- table can be partitioned by day. zone_txn_window answers the count without
-- touching a row; counted comes before created_at, so blocked rows are never
-- read, however many an attacker adds.
CREATE TABLE zone_txn (
  id         BIGINT UNSIGNED NOT NULL AUTO_INCREMENT,
  created_at DATETIME(6) NOT NULL COMMENT 'UTC',
  zone_id    INT NOT NULL,
  bucket_key VARCHAR(255) CHARACTER SET utf8mb4 COLLATE /*!80017 utf8mb4_0900_bin */ /*M! utf8mb4_nopad_bin */ NOT NULL,
  blocked    BOOLEAN NOT NULL,
  exceeded   BOOLEAN NOT NULL,
  counted    BOOLEAN NOT NULL,
  PRIMARY KEY (id, created_at),
  KEY zone_txn_window (zone_id, bucket_key, counted, created_at)
) ENGINE = InnoDB
