-- Exceptions from a zone's limit, for one bucket (bucket_key) or for a network of
-- addresses in an ip zone (prefix). The exact key wins, then the longest prefix. A
-- zone can be deleted when its overrides are. The names of the CHECKs are the rules in
-- words, as in zone_master.
CREATE TABLE zone_override (
  id         BIGINT UNSIGNED NOT NULL AUTO_INCREMENT,
  zone_id    INT NOT NULL,
  bucket_key VARCHAR(255) CHARACTER SET utf8mb4 COLLATE /*!80017 utf8mb4_0900_bin */ /*M! utf8mb4_nopad_bin */ NULL DEFAULT NULL
    COMMENT 'this one bucket; NULL if a prefix is given',
  prefix     VARCHAR(43) CHARACTER SET ascii NULL DEFAULT NULL
    COMMENT 'in ip zones: a network such as 203.0.113.0/24, shorter than the zone''s buckets; NULL if a bucket_key is given',
  network    VARCHAR(130) CHARACTER SET ascii COLLATE ascii_bin NULL DEFAULT NULL
    COMMENT 'kept by velocityd: family and leading bits of prefix, such as 4:11001011; a lookup by one length is one by key',
  action     ENUM('allow', 'deny', 'limit') CHARACTER SET ascii NOT NULL
    COMMENT 'allow: always room, not counted; deny: never room; limit: another rate, and another window or month',
  rate       INT NULL DEFAULT NULL COMMENT 'of a limit',
  `window`   INT NULL DEFAULT NULL COMMENT 'of a limit, seconds: it slides; NULL: the window or period of the zone',
  period_anchor INT NULL DEFAULT NULL
    COMMENT 'of a limit without window, in a zone with the period month: day on which the months of the bucket begin; NULL: the zone''s',
  expires_at DATETIME(6) NULL DEFAULT NULL COMMENT 'UTC: the first instant at which the override is no more; NULL: never',
  reason     VARCHAR(255) CHARACTER SET utf8mb4 /*T! COLLATE utf8mb4_0900_ai_ci */ NOT NULL DEFAULT '',
  created_by VARCHAR(128) CHARACTER SET utf8mb4 /*T! COLLATE utf8mb4_0900_ai_ci */ NOT NULL DEFAULT ''
    COMMENT 'principal or account of the writer',
  created_at DATETIME(6) NOT NULL
    DEFAULT (UTC_TIMESTAMP(6)) -- not on TiDB, which takes no default in UTC
    COMMENT 'UTC',
  PRIMARY KEY (id),
  UNIQUE KEY zone_override_key (zone_id, bucket_key),
  UNIQUE KEY zone_override_network (zone_id, network),
  CONSTRAINT zone_override_zone   FOREIGN KEY (zone_id) REFERENCES zone_master (id),
  CONSTRAINT `give either bucket_key or prefix`
    CHECK ((bucket_key IS NULL) <> (prefix IS NULL)),
  CONSTRAINT `bucket_key must not be empty or have control characters`
    CHECK (bucket_key IS NULL OR (bucket_key <> '' AND bucket_key NOT REGEXP '[[:cntrl:]]')),
  CONSTRAINT `action must be allow, deny or limit`
    CHECK (action <> ''),
  CONSTRAINT `expires_at must be in the years 1970 to 2199, or NULL`
    CHECK (expires_at IS NULL OR (expires_at >= '1970-01-01' AND expires_at < '2200-01-01')),
  CONSTRAINT `limit needs rate 0 to 1000000, other actions have none`
    CHECK ((action = 'limit' AND rate IS NOT NULL AND rate BETWEEN 0 AND 1000000) OR (action <> 'limit' AND rate IS NULL)),
  CONSTRAINT `window must be 1 to 31622400 or NULL, and have action limit`
    CHECK (`window` IS NULL OR (action = 'limit' AND `window` BETWEEN 1 AND 31622400)),
  CONSTRAINT `period_anchor must be 1 to 31 or NULL, and have limit, no window`
    CHECK (period_anchor IS NULL OR (action = 'limit' AND `window` IS NULL AND period_anchor BETWEEN 1 AND 31))
) ENGINE = InnoDB /*T![auto_id_cache] AUTO_ID_CACHE = 1 */ COMMENT = 'exceptions from a zone''s limit, for a bucket or a network'
