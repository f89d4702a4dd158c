-- A zone is a use case with a limit: at most `rate` allowed attempts in any
-- interval of `window` seconds, or in each `period` of the calendar, for each bucket by itself. DBAs write this
-- table with plain SQL; a change takes effect at the next check.
--
-- rate and window may be NULL as columns and are refused by CHECK: NOT NULL
-- alone would let a session without strict mode turn NULL into 0. ENUMs are
-- CHECKed for the empty value that such a session would store.
--
-- When a CHECK refuses a row, both engines show the constraint's name alone. So the name of
-- each is the rule in words: "Check constraint 'rate must be 0 to
-- 1000000' is violated." An ENUM cannot speak so: in strict mode the engine refuses
-- mode = 'shadov' as "Data truncated for column 'mode'" before any CHECK sees the row.
--
-- A zone may keep a pseudonym in the place of each key. key_rule tells both forms apart, so
-- that a check with a key of the other form is refused like one of another key_kind: a
-- program that does not know key_form never writes a clear key into such a zone.
--
-- velocityd keeps key_rule, overridden, revision and narrowed_at by itself: its triggers overrule the
-- values of a writer. Vitess and TiDB have no triggers: there, change zones by the program or over HTTP.
--
-- Until a window after narrowed_at checks ask the whole rule, because a bucket may hold more than rate txns from before.
-- Later a plain count decides whether there is room, which is quicker. Zones with concurrent or repeat_secret always
-- need the whole rule, so their narrowed_at is 9999-12-31, which no window reaches: each check reads this column in any case.
--
-- TiDB's own collation of utf8mb4 tells capital letters from small ones. So the text names MySQL's, in a
-- comment that TiDB alone obeys.
CREATE TABLE zone_master (
  id               INT          NOT NULL,
  description      VARCHAR(255) CHARACTER SET utf8mb4 /*T! COLLATE utf8mb4_0900_ai_ci */ NOT NULL DEFAULT '',
  rate             INT          COMMENT 'attempts that a bucket may have in any interval of `window` seconds, or in each period',
  `window`         INT          COMMENT 'seconds; of a period the length of the longest one, which is filled in',
  period           ENUM('none', 'second', 'minute', 'hour', 'day', 'week', 'month') CHARACTER SET ascii NOT NULL DEFAULT 'none'
    COMMENT 'none: a window slides; otherwise attempts count until the end of their second, minute, hour, day, week (Monday) or month',
  period_offset    INT          NOT NULL DEFAULT 0
    COMMENT 'minutes by which the clock of the period is ahead of UTC, such as 60 or -300',
  period_anchor    INT          NOT NULL DEFAULT 1
    COMMENT 'day on which the period month begins; in a shorter month its last day',
  mode             ENUM('enforce', 'shadow', 'off') CHARACTER SET ascii NOT NULL DEFAULT 'enforce'
    COMMENT 'enforce; shadow: decide and record, never block; off: let pass and record, do not count',
  counts           ENUM('attempts', 'failures') CHARACTER SET ascii NOT NULL DEFAULT 'attempts'
    COMMENT 'failures: a reported success gives its place back',
  reserve_ttl      INT          NULL DEFAULT NULL
    COMMENT 'seconds in which a success may be reported where failures count, and an attempt is under way; NULL: the window',
  reset_on_success BOOLEAN      NOT NULL DEFAULT FALSE
    COMMENT 'a reported success releases all that counts in the bucket',
  concurrent       INT          NOT NULL DEFAULT 0
    COMMENT 'how many counted attempts of a bucket may have no outcome, each for reserve_ttl; then others are blocked; 0: any number',
  repeat_secret    ENUM('count', 'free') CHARACTER SET ascii NOT NULL DEFAULT 'count'
    COMMENT 'free: an attempt takes no place if one that counts, and is no success, had the same secret_hash',
  lockout          INT          NOT NULL DEFAULT 0
    COMMENT 'seconds for which the attempt that finds a bucket full locks it; 0: never',
  lockout_factor   DECIMAL(5,2) NOT NULL DEFAULT 2.00
    COMMENT 'a lockout soon after the last one is so many times longer',
  lockout_max      INT          NOT NULL DEFAULT 86400
    COMMENT 'seconds: no lockout grows longer',
  lockout_decay    INT          NOT NULL DEFAULT 86400
    COMMENT 'seconds after the end of a lockout in which the next one grows; later it is `lockout` again',
  key_kind         ENUM('opaque', 'username', 'username_ai_ci', 'username_general_ci', 'ip') CHARACTER SET ascii NOT NULL DEFAULT 'opaque'
    COMMENT 'how the service normalises keys; callers by SQL pass normal keys',
  key_form         ENUM('clear', 'hmac') CHARACTER SET ascii NOT NULL DEFAULT 'clear'
    COMMENT 'clear: keys are kept as they are; hmac: as pseudonyms, which the service makes; a change begins all windows anew',
  ipv4_prefix      INT          NOT NULL DEFAULT 32
    COMMENT 'in ip zones: bits of an IPv4 address that make one bucket',
  ipv6_prefix      INT          NOT NULL DEFAULT 64
    COMMENT 'in ip zones: bits of an IPv6 address that make one bucket',
  on_failure       ENUM('error', 'allow', 'block') CHARACTER SET ascii NOT NULL DEFAULT 'error'
    COMMENT 'answer while the database is away: error (503); or block, or allow (up to the rate, by each instance): neither is recorded',
  record_blocked   INT          NOT NULL DEFAULT 0
    COMMENT 'how many blocked attempts of a bucket and window have a txn each; the last of these txns counts the others; 0: all have one',
  keep_days        INT          NOT NULL DEFAULT 0
    COMMENT 'days for which the attempts of the zone are kept, if retention_policy does not keep them longer',
  totals           BOOLEAN      NOT NULL DEFAULT FALSE
    COMMENT 'keep the attempts of each bucket by hour, day, month and in all, also when its rows in zone_txn are gone',
  key_rule         VARCHAR(32)  CHARACTER SET ascii
    AS (CONCAT(IF(key_form = 'hmac', 'hmac/', ''), IF(key_kind = 'ip', CONCAT('ip/', ipv4_prefix, '/', ipv6_prefix), key_kind))) STORED
    COMMENT 'kept by velocityd: key_form, key_kind and prefixes in one word; a check of keys normalised by another rule is refused',
  overridden       BOOLEAN      NOT NULL DEFAULT FALSE
    COMMENT 'kept by velocityd: the zone has or had rows in zone_override; where FALSE, checks look for none',
  revision         BIGINT UNSIGNED NOT NULL DEFAULT 1
    COMMENT 'kept by velocityd: counts the changes of the zone; the ETag of the HTTP interface',
  narrowed_at      DATETIME(6)  NOT NULL DEFAULT '1970-01-01'
    COMMENT 'kept by velocityd: UTC; until a window later checks ask the whole rule: since the limit was narrowed, or 9999-12-31: always',
  PRIMARY KEY (id),
  CONSTRAINT `zone id must be 1 or more`
    CHECK (id >= 1),
  CONSTRAINT `rate must be 0 to 1000000`
    CHECK (rate IS NOT NULL AND rate BETWEEN 0 AND 1000000),
  CONSTRAINT `window must be 1 to 31622400 seconds`
    CHECK (`window` IS NOT NULL AND `window` BETWEEN 1 AND 31622400),
  CONSTRAINT `period must be none, second, minute, hour, day, week or month`
    CHECK (period <> ''),
  CONSTRAINT `window of a period must be its length, 2678400 of a month`
    CHECK (period = 'none' OR `window` = CASE period
      WHEN 'second' THEN 1 WHEN 'minute' THEN 60 WHEN 'hour' THEN 3600 WHEN 'day' THEN 86400 WHEN 'week' THEN 604800 ELSE 2678400 END),
  CONSTRAINT `period_offset must be -840 to 840 minutes`
    CHECK (period_offset BETWEEN -840 AND 840),
  CONSTRAINT `period_anchor must be 1 to 31`
    CHECK (period_anchor BETWEEN 1 AND 31),
  CONSTRAINT `mode must be enforce, shadow or off`
    CHECK (mode <> ''),
  CONSTRAINT `counts must be attempts or failures`
    CHECK (counts <> ''),
  CONSTRAINT `reserve_ttl must be 1 second to the window, or NULL`
    CHECK (reserve_ttl IS NULL OR reserve_ttl BETWEEN 1 AND `window`),
  CONSTRAINT `reset_on_success must be TRUE or FALSE`
    CHECK (reset_on_success IN (0, 1)),
  CONSTRAINT `concurrent must be 0 to 1000`
    CHECK (concurrent BETWEEN 0 AND 1000),
  CONSTRAINT `repeat_secret must be count or free`
    CHECK (repeat_secret <> ''),
  CONSTRAINT `lockout must be 0 to 31622400 seconds`
    CHECK (lockout BETWEEN 0 AND 31622400),
  CONSTRAINT `lockout_factor must be 1 to 100`
    CHECK (lockout_factor BETWEEN 1 AND 100),
  CONSTRAINT `lockout_max must be 1 to 31622400 seconds`
    CHECK (lockout_max BETWEEN 1 AND 31622400),
  CONSTRAINT `lockout_decay must be 1 to 31622400 seconds`
    CHECK (lockout_decay BETWEEN 1 AND 31622400),
  CONSTRAINT `key_kind must be opaque, ip or a kind of username`
    CHECK (key_kind <> ''),
  CONSTRAINT `ipv4_prefix must be 1 to 32`
    CHECK (ipv4_prefix BETWEEN 1 AND 32),
  CONSTRAINT `ipv6_prefix must be 1 to 128`
    CHECK (ipv6_prefix BETWEEN 1 AND 128),
  CONSTRAINT `on_failure must be error, allow or block`
    CHECK (on_failure <> ''),
  CONSTRAINT `record_blocked must be 0 to 1000000`
    CHECK (record_blocked BETWEEN 0 AND 1000000),
  CONSTRAINT `keep_days must be 0 to 36500 days`
    CHECK (keep_days BETWEEN 0 AND 36500),
  CONSTRAINT `totals must be TRUE or FALSE`
    CHECK (totals IN (0, 1)),
  CONSTRAINT `key_form must be clear or hmac`
    CHECK (key_form <> '')
) ENGINE = InnoDB COMMENT = 'limits, one row a use case: in force at the next check'
