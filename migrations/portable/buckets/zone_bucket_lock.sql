-- The row of a bucket is its mutex: whoever decides holds it. It comes into being at the
-- bucket's first check, and carries the bucket's last lockout and a tally of its txns.
--
-- Keys are compared byte by byte. The CHECK of the key refuses control characters without
-- a regular expression where it can: if JSON can write a key as it is, in as many bytes as
-- characters, then it is ASCII without quotes, backslashes and the control characters below
-- space (RFC 8259, section 7), and is free of all if DEL (7F) is not in it either.
CREATE TABLE IF NOT EXISTS zone_bucket_lock (
  zone_id      INT NOT NULL,
  bucket_key   VARCHAR(255) CHARACTER SET utf8mb4 COLLATE utf8mb4_0900_bin NOT NULL,
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
  blocked_reason ENUM('full', 'locked', 'lockout', 'denied', 'elsewhere') CHARACTER SET ascii NULL DEFAULT NULL COMMENT 'its reason',
  blocked_override_id BIGINT UNSIGNED NULL DEFAULT NULL COMMENT 'its override_id',
  PRIMARY KEY (zone_id, bucket_key),
  CONSTRAINT zone_bucket_lock_key CHECK (
    bucket_key <> ''
    AND ((LENGTH(JSON_QUOTE(bucket_key)) = CHAR_LENGTH(bucket_key) + 2 AND INSTR(bucket_key, CHAR(127)) = 0)
      OR bucket_key NOT REGEXP '[[:cntrl:]]'))
) ENGINE = InnoDB COMMENT = 'one row a bucket seen: its mutex, its last lockout, its tally and its last series of blocked attempts'
