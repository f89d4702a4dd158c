-- The row of a bucket is its mutex: the deciding session holds it FOR UPDATE. It comes
-- into being at the bucket's first check and carries the bucket's last lockout.
--
-- It also carries a tally, if a batch of the service has counted many txns in the
-- bucket, so that the next one need not count them again. A writer that records a txn
-- in a tally's interval, or lets one of it no longer count, forgets the tally under
-- the same lock: CALL forget_tally.
--
-- Keys are compared byte by byte. utf8mb4_bin would ignore trailing spaces
-- (PAD SPACE), and the two engines name their NO PAD collation differently:
-- MySQL runs the first comment and MariaDB the second (MariaDB skips version
-- comments 50700 to 99999, MySQL does not know M!).
--
-- The CHECK of the key refuses control characters without a regular expression
-- where it can: compiling one took MySQL a tenth of a bucket's first check. If JSON
-- can write a key as it is, in as many bytes as characters, then it is ASCII without
-- quotes, backslashes and the control characters below space (RFC 8259, section 7),
-- and is free of all if DEL (7F) is not in it either. Engines read a CHECK under the
-- settings of the session that opens the table first. So it has no backslash, which
-- sql_mode gives a meaning, and compares no two texts that have the collation of the
-- session: HEX() LIKE '…' is error 1267 where two settings name two collations.
CREATE TABLE zone_bucket_lock (
  zone_id      INT NOT NULL,
  bucket_key   VARCHAR(255) CHARACTER SET utf8mb4 COLLATE /*!80017 utf8mb4_0900_bin */ /*M! utf8mb4_nopad_bin */ NOT NULL,
  locked_until DATETIME(6) NULL DEFAULT NULL COMMENT 'UTC: end of the last lockout',
  lockout_us   BIGINT NOT NULL DEFAULT 0     COMMENT 'microseconds: length of the last lockout, from which the next one grows',
  lockout_shadow BOOLEAN NOT NULL DEFAULT FALSE
      COMMENT 'the last lockout began while the zone only watched: it binds nobody once the zone is enforced',
  tally        INT UNSIGNED NULL DEFAULT NULL COMMENT 'how many counted txns of the bucket have created_at in (tally_from, tally_until]',
  tally_from   DATETIME(6) NULL DEFAULT NULL COMMENT 'UTC',
  tally_until  DATETIME(6) NULL DEFAULT NULL COMMENT 'UTC; NULL: there is no tally',
  tallied_at   DATETIME(6) NULL DEFAULT NULL COMMENT 'UTC: when they were last counted one by one',
  blocked_began DATETIME(6) NULL DEFAULT NULL
      COMMENT 'UTC: begin of the last series of blocked attempts of which not all have a txn; NULL: there is none',
  blocked_txns INT UNSIGNED NULL DEFAULT NULL COMMENT 'how many txns the series has',
  blocked_txn_id BIGINT UNSIGNED NULL DEFAULT NULL COMMENT 'of the last of them, which counts the attempts that are like it',
  blocked_txn_at DATETIME(6) NULL DEFAULT NULL COMMENT 'UTC: its created_at',
  blocked_reason ENUM('full', 'locked', 'lockout', 'denied', 'concurrent', 'elsewhere') CHARACTER SET ascii NULL DEFAULT NULL
      COMMENT 'its reason',
  blocked_override_id BIGINT UNSIGNED NULL DEFAULT NULL COMMENT 'its override_id',
  imprint_key  BINARY(16) NULL DEFAULT NULL COMMENT 'random: the secrets that are tried in the bucket are hashed by it',
  imprint_until DATETIME(6) NULL DEFAULT NULL COMMENT 'UTC: later no secret counts that was hashed by imprint_key, and it is forgotten',
  PRIMARY KEY (zone_id, bucket_key),
  CONSTRAINT zone_bucket_lock_key CHECK (
    bucket_key <> ''
    AND ((LENGTH(JSON_QUOTE(bucket_key)) = CHAR_LENGTH(bucket_key) + 2 AND INSTR(bucket_key, CHAR(127)) = 0)
      OR bucket_key NOT REGEXP '[[:cntrl:]]'))
) ENGINE = InnoDB COMMENT = 'one row a bucket seen: its mutex, its last lockout, its tally and its last series of blocked attempts'
