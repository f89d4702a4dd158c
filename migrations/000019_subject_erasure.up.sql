-- The keys whose erasure is under way: as long as some rows have a key and others its pseudonym already, a run that
-- goes on must find the pseudonym. The row goes when all others are changed.
CREATE TABLE subject_erasure (
  zone_id    INT NOT NULL,
  bucket_key VARCHAR(255) CHARACTER SET utf8mb4 COLLATE /*!80017 utf8mb4_0900_bin */ /*M! utf8mb4_nopad_bin */ NOT NULL,
  pseudonym  VARCHAR(64) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  erased_at  DATETIME(6) NOT NULL COMMENT 'UTC: rows up to it get the pseudonym, and later ones are those of somebody who came back',
  PRIMARY KEY (zone_id, bucket_key)
) ENGINE = InnoDB COMMENT = 'kept by velocityd: keys whose erasure is under way'
