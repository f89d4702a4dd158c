-- A zone is a use case with a limit: at most `rate` allowed attempts in any
-- interval of `window` seconds, for each bucket by itself. DBAs write this table
-- with plain SQL; a change takes effect at the next check. All but id, rate and
-- window have defaults. Times are in seconds.
--
-- mode:             enforce; shadow = decide and record but never block; off =
--                   let pass, record, do not count.
-- counts:           attempts; failures = a reported success gives the place back.
-- reserve_ttl:      until then an outcome may be reported where failures count;
--                   NULL is the window.
-- reset_on_success: a success releases all that counts in the bucket.
-- lockout:          the attempt that finds a bucket full locks it for so long;
--                   0 never. The next one within lockout_decay of its end is
--                   lockout_factor times longer, up to lockout_max.
-- key_kind:         opaque, username or ip: how the service normalises keys. In
--                   ip zones a bucket is an address or its network, ipv4_prefix
--                   or ipv6_prefix bits long. Callers by SQL pass normal keys.
-- overridden:       whether the zone has or had rows in zone_override; set by their
--                   triggers. Where it is FALSE decisions do not look for any.
-- key_rule, revision, changed_at: kept by the schema.
--
-- rate and window may be NULL as columns and are refused by CHECK: NOT NULL
-- alone would let a session without strict mode turn NULL into 0. ENUMs are
-- CHECKed for the empty value that such a session would store.
CREATE TABLE zone_master (
  id               INT          NOT NULL,
  description      VARCHAR(255) CHARACTER SET utf8mb4 NOT NULL DEFAULT '',
  rate             INT,
  `window`         INT          COMMENT 'seconds',
  mode             ENUM('enforce', 'shadow', 'off')    CHARACTER SET ascii NOT NULL DEFAULT 'enforce',
  counts           ENUM('attempts', 'failures')        CHARACTER SET ascii NOT NULL DEFAULT 'attempts',
  reserve_ttl      INT          NULL DEFAULT NULL     COMMENT 'seconds',
  reset_on_success BOOLEAN      NOT NULL DEFAULT FALSE,
  lockout          INT          NOT NULL DEFAULT 0     COMMENT 'seconds',
  lockout_factor   DECIMAL(5,2) NOT NULL DEFAULT 2.00,
  lockout_max      INT          NOT NULL DEFAULT 86400 COMMENT 'seconds',
  lockout_decay    INT          NOT NULL DEFAULT 86400 COMMENT 'seconds',
  key_kind         ENUM('opaque', 'username', 'ip')    CHARACTER SET ascii NOT NULL DEFAULT 'opaque',
  ipv4_prefix      INT          NOT NULL DEFAULT 32,
  ipv6_prefix      INT          NOT NULL DEFAULT 64,
  key_rule         VARCHAR(16)  CHARACTER SET ascii
    AS (IF(key_kind = 'ip', CONCAT('ip/', ipv4_prefix, '/', ipv6_prefix), key_kind)) STORED,
  overridden       BOOLEAN      NOT NULL DEFAULT FALSE,
  revision         BIGINT UNSIGNED NOT NULL DEFAULT 1,
  changed_at       DATETIME(6)  NOT NULL DEFAULT (UTC_TIMESTAMP(6)) COMMENT 'UTC',
  PRIMARY KEY (id),
  CONSTRAINT zone_master_id               CHECK (id >= 1),
  CONSTRAINT zone_master_rate             CHECK (rate IS NOT NULL AND rate BETWEEN 0 AND 1000000),
  CONSTRAINT zone_master_window           CHECK (`window` IS NOT NULL AND `window` BETWEEN 1 AND 31622400),
  CONSTRAINT zone_master_mode             CHECK (mode <> ''),
  CONSTRAINT zone_master_counts           CHECK (counts <> ''),
  CONSTRAINT zone_master_reserve_ttl      CHECK (reserve_ttl IS NULL OR reserve_ttl BETWEEN 1 AND `window`),
  CONSTRAINT zone_master_reset_on_success CHECK (reset_on_success IN (0, 1)),
  CONSTRAINT zone_master_lockout          CHECK (lockout BETWEEN 0 AND 31622400),
  CONSTRAINT zone_master_lockout_factor   CHECK (lockout_factor BETWEEN 1 AND 100),
  CONSTRAINT zone_master_lockout_max      CHECK (lockout_max BETWEEN 1 AND 31622400),
  CONSTRAINT zone_master_lockout_decay    CHECK (lockout_decay BETWEEN 1 AND 31622400),
  CONSTRAINT zone_master_key_kind         CHECK (key_kind <> ''),
  CONSTRAINT zone_master_ipv4_prefix      CHECK (ipv4_prefix BETWEEN 1 AND 32),
  CONSTRAINT zone_master_ipv6_prefix      CHECK (ipv6_prefix BETWEEN 1 AND 128)
) ENGINE = InnoDB
