-- A zone is a use case with a limit: at most `rate` allowed attempts in any
-- interval of `window` seconds, for each bucket by itself. DBAs write this table
-- with plain SQL; a change takes effect at the next check.
--
-- rate and window may be NULL as columns and are refused by CHECK: NOT NULL
-- alone would let a session without strict mode turn NULL into 0. ENUMs are
-- CHECKed for the empty value that such a session would store.
--
-- What the schema keeps by itself (key_rule, overridden, revision, narrowed_at) is
-- overruled by the triggers, whatever a writer says.
CREATE TABLE zone_master (
  id               INT          NOT NULL,
  description      VARCHAR(255) CHARACTER SET utf8mb4 NOT NULL DEFAULT '',
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
    COMMENT 'how the service normalises keys; callers by SQL pass normal keys',
  ipv4_prefix      INT          NOT NULL DEFAULT 32
    COMMENT 'in ip zones: bits of an IPv4 address that make one bucket',
  ipv6_prefix      INT          NOT NULL DEFAULT 64
    COMMENT 'in ip zones: bits of an IPv6 address that make one bucket',
  key_rule         VARCHAR(16)  CHARACTER SET ascii
    AS (IF(key_kind = 'ip', CONCAT('ip/', ipv4_prefix, '/', ipv6_prefix), key_kind)) STORED
    COMMENT 'kept by the schema: key_kind and prefixes in one word; a check of keys normalised by another rule is refused',
  overridden       BOOLEAN      NOT NULL DEFAULT FALSE
    COMMENT 'kept by the schema: the zone has or had rows in zone_override; where FALSE, checks look for none',
  revision         BIGINT UNSIGNED NOT NULL DEFAULT 1
    COMMENT 'kept by the schema: counts the changes of the zone; the ETag of the HTTP interface',
  narrowed_at      DATETIME(6)  NOT NULL DEFAULT '1970-01-01'
    COMMENT 'kept by the schema: UTC; when rate was last lowered or window lengthened: a bucket may hold more than rate from before',
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
) ENGINE = InnoDB COMMENT = 'limits, one row a use case: written by DBAs, in force at the next check'
