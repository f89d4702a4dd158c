-- Every attempt, allowed or blocked, one row for each bucket it names.
--
-- The primary key ends in created_at and there is no foreign key, so that the
-- table can be partitioned by time. It begins with one partition, which the runner of
-- retention splits into days, weeks or months ahead of time. zone_txn_window answers the count without
-- touching a row; counted comes before created_at, so blocked rows are never
-- read, however many an attacker adds. The newest txns of a bucket come first, so that
-- every count reads the index forwards. Engines lose rows when they read one backwards:
-- InnoDB while pages are merged (MySQL bugs 114248 and 115518), MariaDB in partitioned
-- tables (MDEV-40479). TiDB reads DESC and keeps the index ascending.
CREATE TABLE zone_txn (
  id            BIGINT UNSIGNED NOT NULL
    AUTO_INCREMENT -- not on Vitess, where ids come from zone_txn_seq: two shards would give the same ones
    COMMENT 'the txn_id of answers and reports',
  created_at    DATETIME(6) NOT NULL COMMENT 'UTC',
  zone_id       INT NOT NULL,
  bucket_key    VARCHAR(255) CHARACTER SET utf8mb4 COLLATE /*!80017 utf8mb4_0900_bin */ /*M! utf8mb4_nopad_bin */ NOT NULL,
  blocked       BOOLEAN NOT NULL COMMENT 'not let through, by this bucket or by another one of the same check',
  would_block   BOOLEAN NOT NULL COMMENT 'this bucket had no room, was locked or denied, whether or not its zone is enforced',
  counted       BOOLEAN NOT NULL COMMENT 'takes one of the bucket''s `rate` places while it is in the window',
  uncounted_at  DATETIME(6) NULL DEFAULT NULL
    COMMENT 'UTC: when its place was given back, by a success, a reset or a release; NULL: never, or it never had one',
  reason        ENUM('full', 'locked', 'lockout', 'denied', 'concurrent', 'elsewhere') CHARACTER SET ascii NULL DEFAULT NULL
    COMMENT 'why there was no room: full, locked before, full so that a lockout began, denied, concurrent; or another bucket blocked',
  override_id   BIGINT UNSIGNED NULL DEFAULT NULL COMMENT 'of the override that denied; it may have gone since',
  outcome       ENUM('success', 'failure') CHARACTER SET ascii NULL DEFAULT NULL
    COMMENT 'how the login ended; NULL while nobody has said',
  attempt_id    VARCHAR(64) CHARACTER SET ascii COLLATE ascii_bin NULL DEFAULT NULL
    COMMENT 'the caller''s own name of the attempt, if it gave one',
  check_id      BIGINT UNSIGNED NULL DEFAULT NULL
    COMMENT 'what the txns of one check of several buckets share; otherwise NULL',
  check_buckets TINYINT UNSIGNED NULL DEFAULT NULL
    COMMENT 'how many they are',
  repeats       INT UNSIGNED NULL DEFAULT NULL
    COMMENT 'how many later blocked attempts of the bucket the txn stands for, in a zone with record_blocked; NULL: none',
  repeated_at   DATETIME(6) NULL DEFAULT NULL COMMENT 'UTC: when the newest of them was made',
  imprint       BINARY(16) NULL DEFAULT NULL
    COMMENT 'of the secret that was tried: a hash by imprint_key of the bucket, without which it says nothing; NULL: none',
  PRIMARY KEY (id, created_at),
  KEY zone_txn_window (zone_id, bucket_key, counted, created_at DESC, id DESC)
) ENGINE = InnoDB /*T![auto_id_cache] AUTO_ID_CACHE = 1 */ COMMENT = 'every attempt, allowed or blocked, one row for each bucket it names'
  PARTITION BY RANGE COLUMNS (created_at) (PARTITION later VALUES LESS THAN (MAXVALUE)) -- not on Vitess and TiDB
