-- What a zone does besides limiting. Every setting has a default, under which all
-- is as it was. Times are in seconds.
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
-- narrowed_at:      when the limit last became narrower (rate lowered, window
--                   lengthened): a bucket may hold more than rate from before.
-- key_rule, revision, narrowed_at: kept by the schema.
--
-- ENUMs are CHECKed for the empty value that a session without strict mode would
-- store.
ALTER TABLE zone_master
  ADD COLUMN mode             ENUM('enforce', 'shadow', 'off')    CHARACTER SET ascii NOT NULL DEFAULT 'enforce',
  ADD COLUMN counts           ENUM('attempts', 'failures')        CHARACTER SET ascii NOT NULL DEFAULT 'attempts',
  ADD COLUMN reserve_ttl      INT          NULL DEFAULT NULL     COMMENT 'seconds',
  ADD COLUMN reset_on_success BOOLEAN      NOT NULL DEFAULT FALSE,
  ADD COLUMN lockout          INT          NOT NULL DEFAULT 0     COMMENT 'seconds',
  ADD COLUMN lockout_factor   DECIMAL(5,2) NOT NULL DEFAULT 2.00,
  ADD COLUMN lockout_max      INT          NOT NULL DEFAULT 86400 COMMENT 'seconds',
  ADD COLUMN lockout_decay    INT          NOT NULL DEFAULT 86400 COMMENT 'seconds',
  ADD COLUMN key_kind         ENUM('opaque', 'username', 'ip')    CHARACTER SET ascii NOT NULL DEFAULT 'opaque',
  ADD COLUMN ipv4_prefix      INT          NOT NULL DEFAULT 32,
  ADD COLUMN ipv6_prefix      INT          NOT NULL DEFAULT 64,
  ADD COLUMN key_rule         VARCHAR(16)  CHARACTER SET ascii
    AS (IF(key_kind = 'ip', CONCAT('ip/', ipv4_prefix, '/', ipv6_prefix), key_kind)) STORED,
  ADD COLUMN overridden       BOOLEAN      NOT NULL DEFAULT FALSE,
  ADD COLUMN revision         BIGINT UNSIGNED NOT NULL DEFAULT 1,
  ADD COLUMN narrowed_at      DATETIME(6)  NOT NULL DEFAULT '1970-01-01' COMMENT 'UTC',
  ADD CONSTRAINT zone_master_mode             CHECK (mode <> ''),
  ADD CONSTRAINT zone_master_counts           CHECK (counts <> ''),
  ADD CONSTRAINT zone_master_reserve_ttl      CHECK (reserve_ttl IS NULL OR reserve_ttl BETWEEN 1 AND `window`),
  ADD CONSTRAINT zone_master_reset_on_success CHECK (reset_on_success IN (0, 1)),
  ADD CONSTRAINT zone_master_lockout          CHECK (lockout BETWEEN 0 AND 31622400),
  ADD CONSTRAINT zone_master_lockout_factor   CHECK (lockout_factor BETWEEN 1 AND 100),
  ADD CONSTRAINT zone_master_lockout_max      CHECK (lockout_max BETWEEN 1 AND 31622400),
  ADD CONSTRAINT zone_master_lockout_decay    CHECK (lockout_decay BETWEEN 1 AND 31622400),
  ADD CONSTRAINT zone_master_key_kind         CHECK (key_kind <> ''),
  ADD CONSTRAINT zone_master_ipv4_prefix      CHECK (ipv4_prefix BETWEEN 1 AND 32),
  ADD CONSTRAINT zone_master_ipv6_prefix      CHECK (ipv6_prefix BETWEEN 1 AND 128)
