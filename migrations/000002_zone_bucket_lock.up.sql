-- The row of a bucket is its mutex: whoever decides holds it FOR UPDATE. It
-- comes into being at the bucket's first check and carries no other state.
--
-- Keys are compared byte by byte. utf8mb4_bin would ignore trailing spaces
-- (PAD SPACE), and the two engines name their NO PAD collation differently:
-- MySQL runs the first comment and MariaDB the second (MariaDB skips version
-- comments 50700 to 99999, MySQL does not know M!).
CREATE TABLE zone_bucket_lock (
  zone_id    INT NOT NULL,
  bucket_key VARCHAR(255) CHARACTER SET utf8mb4 COLLATE /*!80017 utf8mb4_0900_bin */ /*M! utf8mb4_nopad_bin */ NOT NULL,
  PRIMARY KEY (zone_id, bucket_key),
  CONSTRAINT zone_bucket_lock_key CHECK (bucket_key <> '' AND bucket_key NOT REGEXP '[\\x{00}-\\x{1F}\\x{7F}-\\x{9F}]')
) ENGINE = InnoDB
