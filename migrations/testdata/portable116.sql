-- The portable tables as version 116 made them in one database, where they first were. Never edit
-- it: databases that look like this are there, and the test that reads it brings one up to date.
CREATE TABLE access_token (
  id           BIGINT UNSIGNED NOT NULL AUTO_INCREMENT,
  kind         ENUM('token', 'certificate') CHARACTER SET ascii NOT NULL,
  name         VARCHAR(48) CHARACTER SET ascii COLLATE ascii_bin NOT NULL
    COMMENT 'who the caller is: the principal in zone_audit. Two rows that hold may share it, while one takes the other''s place',
  digest       BINARY(32) NOT NULL
    COMMENT 'SHA-256 of the token, or of ''certificate '' and the subject',
  shown        VARCHAR(8) CHARACTER SET ascii COLLATE ascii_bin NULL DEFAULT NULL
    COMMENT 'the first characters of a token, to tell it by; NULL for a certificate',
  subject      VARCHAR(512) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NULL DEFAULT NULL
    COMMENT 'of a client certificate, as in RFC 2253; NULL for a token',
  scopes       SET('check', 'report', 'peek', 'release', 'zones', 'overrides', 'history', 'admin') CHARACTER SET ascii NOT NULL
    COMMENT 'what the caller may do; admin: everything',
  zones        VARCHAR(2815) CHARACTER SET ascii COLLATE ascii_bin NULL DEFAULT NULL
    COMMENT 'ids of the zones in which the scopes hold, as 1,2,7 for FIND_IN_SET; NULL: all zones',
  expires_at   DATETIME(6) NULL DEFAULT NULL COMMENT 'UTC: the first instant at which the row does not hold any more; NULL: never',
  created_at   DATETIME(6) NOT NULL COMMENT 'UTC',
  created_by   VARCHAR(128) CHARACTER SET utf8mb4 COLLATE utf8mb4_0900_ai_ci NOT NULL,
  last_used_at DATETIME(6) NULL DEFAULT NULL COMMENT 'UTC, to about a minute: the one column that the service writes',
  revoked_at   DATETIME(6) NULL DEFAULT NULL COMMENT 'UTC; NULL: not revoked',
  revoked_by   VARCHAR(128) CHARACTER SET utf8mb4 COLLATE utf8mb4_0900_ai_ci NULL DEFAULT NULL,
  PRIMARY KEY (id),
  KEY access_token_name (name),
  KEY access_token_holds (revoked_at, expires_at),
  CONSTRAINT `kind must be token or certificate`
    CHECK (kind <> ''),
  CONSTRAINT `name must be a letter, then at most 47 letters, digits, - . _ @`
    CHECK (name REGEXP '^[A-Za-z][-A-Za-z0-9._@]{0,47}$' AND name NOT REGEXP '[[:cntrl:]]'),
  CONSTRAINT `a token needs shown, a certificate needs subject`
    CHECK ((kind = 'token' AND shown IS NOT NULL AND subject IS NULL)
      OR (kind = 'certificate' AND subject IS NOT NULL AND subject <> '' AND shown IS NULL)),
  CONSTRAINT `scopes must not be empty`
    CHECK (scopes <> ''),
  CONSTRAINT `zones must be ids such as 1,2,7, or NULL`
    CHECK (zones IS NULL OR (zones REGEXP '^[1-9][0-9]{0,9}(,[1-9][0-9]{0,9})*$' AND zones NOT REGEXP '[[:cntrl:]]')),
  CONSTRAINT `expires_at of a token must be in the years 1970 to 2199, or NULL`
    CHECK (expires_at IS NULL OR (expires_at >= '1970-01-01' AND expires_at < '2200-01-01')),
  CONSTRAINT `revoked_at and revoked_by belong together`
    CHECK ((revoked_at IS NULL) = (revoked_by IS NULL))
) ENGINE = InnoDB /*T![auto_id_cache] AUTO_ID_CACHE = 1 */ COMMENT = 'tokens and client certificates by which callers of the HTTP interface are known; written by velocityd token';
CREATE TABLE schema_migrations (
  version BIGINT  NOT NULL,
  dirty   BOOLEAN NOT NULL,
  PRIMARY KEY (version)
) ENGINE = InnoDB COMMENT = 'kept by velocityd migrate: the version of the tables';
CREATE TABLE zone_audit (
  id           BIGINT UNSIGNED NOT NULL AUTO_INCREMENT,
  changed_at   DATETIME(6) NOT NULL COMMENT 'UTC',
  changed_by   VARCHAR(384) CHARACTER SET utf8mb4 COLLATE utf8mb4_0900_ai_ci NOT NULL COMMENT 'the account of the session',
  principal    VARCHAR(128) CHARACTER SET utf8mb4 COLLATE utf8mb4_0900_ai_ci NULL DEFAULT NULL
    COMMENT 'on whose behalf, as the service said',
  subject      ENUM('zone', 'override', 'bucket') CHARACTER SET ascii NOT NULL,
  action       ENUM('insert', 'update', 'delete', 'release') CHARACTER SET ascii NOT NULL,
  zone_id      INT NOT NULL,
  override_id  BIGINT UNSIGNED NULL DEFAULT NULL,
  state_before JSON NULL,
  state_after  JSON NULL,
  PRIMARY KEY (id),
  KEY zone_audit_zone (zone_id, id)
) ENGINE = InnoDB /*T![auto_id_cache] AUTO_ID_CACHE = 1 */ COMMENT = 'every change of a zone or an override, and every release of a bucket';
CREATE TABLE zone_master (
  id               INT          NOT NULL,
  description      VARCHAR(255) CHARACTER SET utf8mb4 COLLATE utf8mb4_0900_ai_ci NOT NULL DEFAULT '',
  rate             INT          COMMENT 'attempts that a bucket may have in any interval of `window` seconds',
  `window`         INT          COMMENT 'seconds',
  mode             ENUM('enforce', 'shadow', 'off') CHARACTER SET ascii NOT NULL DEFAULT 'enforce'
    COMMENT 'enforce; shadow: decide and record, never block; off: let pass and record, do not count',
  counts           ENUM('attempts', 'failures') CHARACTER SET ascii NOT NULL DEFAULT 'attempts'
    COMMENT 'failures: a reported success gives its place back',
  reserve_ttl      INT          NULL DEFAULT NULL
    COMMENT 'seconds within which a success may be reported where failures count; NULL: the window',
  reset_on_success BOOLEAN      NOT NULL DEFAULT FALSE
    COMMENT 'a reported success releases all that counts in the bucket',
  lockout          INT          NOT NULL DEFAULT 0
    COMMENT 'seconds for which the attempt that finds a bucket full locks it; 0: never',
  lockout_factor   DECIMAL(5,2) NOT NULL DEFAULT 2.00
    COMMENT 'a lockout soon after the last one is so many times longer',
  lockout_max      INT          NOT NULL DEFAULT 86400
    COMMENT 'seconds: no lockout grows longer',
  lockout_decay    INT          NOT NULL DEFAULT 86400
    COMMENT 'seconds after the end of a lockout in which the next one grows; later it is `lockout` again',
  key_kind         ENUM('opaque', 'username', 'ip') CHARACTER SET ascii NOT NULL DEFAULT 'opaque'
    COMMENT 'how the service normalises keys',
  key_form         ENUM('clear', 'hmac') CHARACTER SET ascii NOT NULL DEFAULT 'clear'
    COMMENT 'clear: keys are kept as they are; hmac: as pseudonyms, which the service makes; a change begins all windows anew',
  ipv4_prefix      INT          NOT NULL DEFAULT 32
    COMMENT 'in ip zones: bits of an IPv4 address that make one bucket',
  ipv6_prefix      INT          NOT NULL DEFAULT 64
    COMMENT 'in ip zones: bits of an IPv6 address that make one bucket',
  on_failure       ENUM('error', 'allow', 'block') CHARACTER SET ascii NOT NULL DEFAULT 'error'
    COMMENT 'what the service answers while the database is away: error (503, the caller decides); allow or block, recorded nowhere',
  key_rule         VARCHAR(16)  CHARACTER SET ascii
    AS (CONCAT(IF(key_form = 'hmac', 'hmac/', ''), IF(key_kind = 'ip', CONCAT('ip/', ipv4_prefix, '/', ipv6_prefix), key_kind))) STORED
    COMMENT 'kept by the engine: key_form, key_kind and prefixes in one word; a check of keys normalised by another rule is refused',
  overridden       BOOLEAN      NOT NULL DEFAULT FALSE
    COMMENT 'kept by velocityd: the zone has or had rows in zone_override; where FALSE, checks look for none',
  revision         BIGINT UNSIGNED NOT NULL DEFAULT 1
    COMMENT 'kept by velocityd: counts the changes of the zone; the ETag of the HTTP interface',
  narrowed_at      DATETIME(6)  NOT NULL DEFAULT '1970-01-01'
    COMMENT 'kept by velocityd: UTC; when rate was last lowered or window lengthened: a bucket may hold more than rate from before',
  PRIMARY KEY (id),
  CONSTRAINT `zone id must be 1 or more`
    CHECK (id >= 1),
  CONSTRAINT `rate must be 0 to 1000000`
    CHECK (rate IS NOT NULL AND rate BETWEEN 0 AND 1000000),
  CONSTRAINT `window must be 1 to 31622400 seconds`
    CHECK (`window` IS NOT NULL AND `window` BETWEEN 1 AND 31622400),
  CONSTRAINT `mode must be enforce, shadow or off`
    CHECK (mode <> ''),
  CONSTRAINT `counts must be attempts or failures`
    CHECK (counts <> ''),
  CONSTRAINT `reserve_ttl must be 1 second to the window, or NULL`
    CHECK (reserve_ttl IS NULL OR reserve_ttl BETWEEN 1 AND `window`),
  CONSTRAINT `reset_on_success must be TRUE or FALSE`
    CHECK (reset_on_success IN (0, 1)),
  CONSTRAINT `lockout must be 0 to 31622400 seconds`
    CHECK (lockout BETWEEN 0 AND 31622400),
  CONSTRAINT `lockout_factor must be 1 to 100`
    CHECK (lockout_factor BETWEEN 1 AND 100),
  CONSTRAINT `lockout_max must be 1 to 31622400 seconds`
    CHECK (lockout_max BETWEEN 1 AND 31622400),
  CONSTRAINT `lockout_decay must be 1 to 31622400 seconds`
    CHECK (lockout_decay BETWEEN 1 AND 31622400),
  CONSTRAINT `key_kind must be opaque, username or ip`
    CHECK (key_kind <> ''),
  CONSTRAINT `key_form must be clear or hmac`
    CHECK (key_form <> ''),
  CONSTRAINT `ipv4_prefix must be 1 to 32`
    CHECK (ipv4_prefix BETWEEN 1 AND 32),
  CONSTRAINT `ipv6_prefix must be 1 to 128`
    CHECK (ipv6_prefix BETWEEN 1 AND 128),
  CONSTRAINT `on_failure must be error, allow or block`
    CHECK (on_failure <> '')
) ENGINE = InnoDB COMMENT = 'limits, one row a use case: in force at the next check';
CREATE TABLE zone_override (
  id         BIGINT UNSIGNED NOT NULL AUTO_INCREMENT,
  zone_id    INT NOT NULL,
  bucket_key VARCHAR(255) CHARACTER SET utf8mb4 COLLATE utf8mb4_0900_bin NULL DEFAULT NULL
    COMMENT 'this one bucket; NULL if a prefix is given',
  prefix     VARCHAR(43) CHARACTER SET ascii NULL DEFAULT NULL
    COMMENT 'in ip zones: a network such as 203.0.113.0/24, shorter than the zone''s buckets; NULL if a bucket_key is given',
  network    VARCHAR(130) CHARACTER SET ascii COLLATE ascii_bin NULL DEFAULT NULL
    COMMENT 'kept by velocityd: family and leading bits of prefix, such as 4:11001011; a lookup by one length is one by key',
  action     ENUM('allow', 'deny', 'limit') CHARACTER SET ascii NOT NULL
    COMMENT 'allow: always room, not counted; deny: never room; limit: a rate and window of its own',
  rate       INT NULL DEFAULT NULL COMMENT 'of a limit',
  `window`   INT NULL DEFAULT NULL COMMENT 'of a limit, seconds',
  expires_at DATETIME(6) NULL DEFAULT NULL COMMENT 'UTC: the first instant at which the override is no more; NULL: never',
  reason     VARCHAR(255) CHARACTER SET utf8mb4 COLLATE utf8mb4_0900_ai_ci NOT NULL DEFAULT '',
  created_by VARCHAR(128) CHARACTER SET utf8mb4 COLLATE utf8mb4_0900_ai_ci NOT NULL DEFAULT '' COMMENT 'principal or account of the writer',
  created_at DATETIME(6) NOT NULL COMMENT 'UTC',
  PRIMARY KEY (id),
  UNIQUE KEY zone_override_key (zone_id, bucket_key),
  UNIQUE KEY zone_override_network (zone_id, network),
  CONSTRAINT zone_override_zone FOREIGN KEY (zone_id) REFERENCES zone_master (id),
  CONSTRAINT `give either bucket_key or prefix`
    CHECK ((bucket_key IS NULL) <> (prefix IS NULL)),
  CONSTRAINT `bucket_key must not be empty or have control characters`
    CHECK (bucket_key IS NULL OR (bucket_key <> '' AND bucket_key NOT REGEXP '[[:cntrl:]]')),
  CONSTRAINT `action must be allow, deny or limit`
    CHECK (action <> ''),
  CONSTRAINT `expires_at must be in the years 1970 to 2199, or NULL`
    CHECK (expires_at IS NULL OR (expires_at >= '1970-01-01' AND expires_at < '2200-01-01')),
  CONSTRAINT `limit needs rate 0 to 1000000, window 1 to 31622400, others none`
    CHECK (
    (action = 'limit' AND rate IS NOT NULL AND rate BETWEEN 0 AND 1000000
       AND `window` IS NOT NULL AND `window` BETWEEN 1 AND 31622400)
    OR (action <> 'limit' AND rate IS NULL AND `window` IS NULL))
) ENGINE = InnoDB /*T![auto_id_cache] AUTO_ID_CACHE = 1 */ COMMENT = 'exceptions from a zone''s limit, for a bucket or a network';
CREATE TABLE zone_override_prefix_length (
  zone_id       INT NOT NULL,
  family        TINYINT NOT NULL COMMENT '4 or 6',
  prefix_length SMALLINT NOT NULL COMMENT 'bits',
  PRIMARY KEY (zone_id, family, prefix_length)
) ENGINE = InnoDB COMMENT = 'kept by velocityd with zone_override: the prefix lengths in use';
CREATE TABLE zone_attempt (
  attempt_id VARBINARY(64) NOT NULL,
  bucket_key VARCHAR(255) CHARACTER SET utf8mb4 COLLATE utf8mb4_0900_bin NOT NULL
    COMMENT 'of one of the check''s buckets',
  created_at DATETIME(6) NOT NULL COMMENT 'UTC',
  expires_at DATETIME(6) NOT NULL COMMENT 'UTC: from then on the row means nothing and may be deleted',
  answer     JSON NOT NULL
    COMMENT 'for each bucket [zone_id, bucket_key, blocked, would_block, txn_id, rate, window, velocity, remaining, retry_after]',
  PRIMARY KEY (attempt_id, bucket_key),
  UNIQUE KEY zone_attempt_id (attempt_id),
  KEY zone_attempt_expiry (expires_at)
) ENGINE = InnoDB COMMENT = 'what was answered to checks with an attempt_id, for their retries';
CREATE TABLE zone_bucket_lock (
  zone_id      INT NOT NULL,
  bucket_key   VARCHAR(255) CHARACTER SET utf8mb4 COLLATE utf8mb4_0900_bin NOT NULL,
  locked_until DATETIME(6) NULL DEFAULT NULL COMMENT 'UTC: end of the last lockout',
  lockout_us   BIGINT NOT NULL DEFAULT 0     COMMENT 'microseconds: length of the last lockout, from which the next one grows',
  tally        INT UNSIGNED NULL DEFAULT NULL COMMENT 'how many counted txns of the bucket have created_at in (tally_from, tally_until]',
  tally_from   DATETIME(6) NULL DEFAULT NULL COMMENT 'UTC',
  tally_until  DATETIME(6) NULL DEFAULT NULL COMMENT 'UTC; NULL: there is no tally',
  tallied_at   DATETIME(6) NULL DEFAULT NULL COMMENT 'UTC: when they were last counted one by one',
  PRIMARY KEY (zone_id, bucket_key),
  CONSTRAINT zone_bucket_lock_key CHECK (
    bucket_key <> ''
    AND ((LENGTH(JSON_QUOTE(bucket_key)) = CHAR_LENGTH(bucket_key) + 2 AND HEX(bucket_key) NOT LIKE '%7F%')
      OR bucket_key NOT REGEXP '[[:cntrl:]]'))
) ENGINE = InnoDB COMMENT = 'one row a bucket seen: its mutex, its last lockout and its tally';
CREATE TABLE zone_txn (
  id            BIGINT UNSIGNED NOT NULL AUTO_INCREMENT,
  created_at    DATETIME(6) NOT NULL COMMENT 'UTC',
  zone_id       INT NOT NULL,
  bucket_key    VARCHAR(255) CHARACTER SET utf8mb4 COLLATE utf8mb4_0900_bin NOT NULL,
  blocked       BOOLEAN NOT NULL COMMENT 'not let through, by this bucket or by another one of the same check',
  would_block   BOOLEAN NOT NULL COMMENT 'this bucket had no room, was locked or denied, whether or not its zone is enforced',
  counted       BOOLEAN NOT NULL COMMENT 'takes one of the bucket''s `rate` places while it is in the window',
  outcome       ENUM('success', 'failure') CHARACTER SET ascii NULL DEFAULT NULL
    COMMENT 'how the login ended; NULL while nobody has said',
  attempt_id    VARCHAR(64) CHARACTER SET ascii COLLATE ascii_bin NULL DEFAULT NULL
    COMMENT 'the caller''s own name of the attempt, if it gave one',
  check_id      BIGINT UNSIGNED NULL DEFAULT NULL
    COMMENT 'what the txns of one check of several buckets share; otherwise NULL',
  check_buckets TINYINT UNSIGNED NULL DEFAULT NULL
    COMMENT 'how many they are',
  PRIMARY KEY (id, created_at),
  KEY zone_txn_window (zone_id, bucket_key, counted, created_at DESC, id DESC)
) ENGINE = InnoDB COMMENT = 'every attempt, allowed or blocked, one row for each bucket it names';
INSERT INTO schema_migrations (version, dirty) VALUES (116, 0);
