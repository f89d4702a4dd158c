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
-- velocityd keeps key_rule, whole_rule, overridden, revision and narrowed_at by itself: the engine makes the first two, and
-- triggers overrule the values of a writer. Vitess and TiDB have no triggers: there, change zones by the program or over HTTP.
--
-- Until a window after narrowed_at checks ask the whole rule, because a bucket may hold more than rate txns from before.
-- Later a plain count decides whether there is room, which is quicker. Where whole_rule is TRUE, checks always ask the whole rule.
--
-- TiDB's own collation of utf8mb4 tells capital letters from small ones. So the text names MySQL's, in a
-- comment that TiDB alone obeys.
CREATE TABLE zone_master (
  id               INT          NOT NULL,
  description      VARCHAR(255) CHARACTER SET utf8mb4 /*T! COLLATE utf8mb4_0900_ai_ci */ NOT NULL DEFAULT ''
    COMMENT 'What the zone is for, in the words of its people.',
  rate             INT
    COMMENT 'The most allowed attempts of a bucket in any interval of `window` seconds, or in each period. 0: no attempt passes.',
  `window`         INT
    COMMENT 'The length of the sliding window; of a period it is the length of the longest one, 2678400 of a month, and may be left out. In seconds. Left out: that of the period.',
  period           ENUM('none', 'second', 'minute', 'hour', 'day', 'week', 'month') CHARACTER SET ascii NOT NULL DEFAULT 'none'
    COMMENT 'The unit of the calendar until whose end attempts count, in place of a sliding window. none: a sliding window; week: from Monday.',
  period_offset    INT          NOT NULL DEFAULT 0
    COMMENT 'How far the clock of the period is ahead of UTC, such as 60 or -300. In minutes.',
  period_anchor    INT          NOT NULL DEFAULT 1
    COMMENT 'The day on which the period `month` begins; in a shorter month it is the last day.',
  mode             ENUM('enforce', 'shadow', 'off') CHARACTER SET ascii NOT NULL DEFAULT 'enforce'
    COMMENT 'Whether verdicts bind; in `shadow` they are told as `would_block`, and lockouts never bind. enforce: blocks; shadow: decides and records, never blocks; off: lets pass and records, counts nothing.',
  counts           ENUM('attempts', 'failures') CHARACTER SET ascii NOT NULL DEFAULT 'attempts'
    COMMENT 'Which attempts take a place in the window; a reported success gives its place back where failures count. attempts: all that are allowed; failures: those whose success is not reported.',
  reserve_ttl      INT          NULL DEFAULT NULL
    COMMENT 'How long a success may be reported where failures count, later the attempt is a failure; with `concurrent`, how long an attempt is under way; at most the window. In seconds. Left out: the window.',
  reset_on_success BOOLEAN      NOT NULL DEFAULT FALSE
    COMMENT 'Whether a reported success releases all that counts in the bucket.',
  concurrent       INT          NOT NULL DEFAULT 0
    COMMENT 'How many counted attempts of a bucket may have no outcome at once, each for `reserve_ttl`; further ones are blocked. 0: any number.',
  repeat_secret    ENUM('count', 'free') CHARACTER SET ascii NOT NULL DEFAULT 'count'
    COMMENT 'What an attempt does with the `secret_hash` of an earlier one that counts and is no success. count: takes a place again; free: takes no place.',
  lockout          INT          NOT NULL DEFAULT 0
    COMMENT 'How long the attempt that finds a bucket full locks it; attempts on a locked bucket do not prolong the lockout. 0: never. In seconds.',
  lockout_factor   DECIMAL(5,2) NOT NULL DEFAULT 2.00
    COMMENT 'How many times longer a lockout is that begins within `lockout_decay` of the last one''s end, with two decimals.',
  lockout_max      INT          NOT NULL DEFAULT 86400
    COMMENT 'The longest lockout. In seconds.',
  lockout_decay    INT          NOT NULL DEFAULT 86400
    COMMENT 'How long after a lockout''s end the next one still grows; later it has the length of `lockout` again. In seconds.',
  key_kind         ENUM('opaque', 'username', 'username_ai_ci', 'username_general_ci', 'ip') CHARACTER SET ascii NOT NULL DEFAULT 'opaque'
    COMMENT 'Which keys are one bucket; the service brings them into this form, names by Unicode NFKC, and callers by SQL pass them in it. opaque: equal bytes; username: without case, space around, hidden characters; username_ai_ci: without accents, too, as utf8mb4_0900_ai_ci; username_general_ci: without accents, too, as utf8mb4_general_ci; ip: addresses or their networks.',
  key_form         ENUM('clear', 'hmac') CHARACTER SET ascii NOT NULL DEFAULT 'clear'
    COMMENT 'How keys are kept; a change begins all windows of the zone anew. clear: as they are; hmac: as pseudonyms, by the service''s secret keys.',
  ipv4_prefix      INT          NOT NULL DEFAULT 32
    COMMENT 'In `ip` zones: how many leading bits of an IPv4 address make one bucket.',
  ipv6_prefix      INT          NOT NULL DEFAULT 64
    COMMENT 'In `ip` zones: how many leading bits of an IPv6 address make one bucket.',
  on_failure       ENUM('error', 'allow', 'block') CHARACTER SET ascii NOT NULL DEFAULT 'error'
    COMMENT 'The answer while the database is away; `allow` and `block` are recorded nowhere, and the strictest zone of a check decides. error: 503, the caller decides; allow: up to the rate, by each instance; block: lets nobody pass.',
  record_blocked   INT          NOT NULL DEFAULT 0
    COMMENT 'How many blocked attempts of a bucket in a window or period, at most a day, have a txn each; the last of these counts the others. 0: all.',
  keep_days        INT          NOT NULL DEFAULT 0
    COMMENT 'How long the zone''s attempts are kept, if the policy of the database does not keep them longer. 0: as the policy says. In days.',
  totals           BOOLEAN      NOT NULL DEFAULT FALSE
    COMMENT 'Whether the attempts of each bucket are counted by hour, day, month and in all from now on, which outlives their rows.',
  key_rule         VARCHAR(32)  CHARACTER SET ascii
    AS (CONCAT(IF(key_form = 'hmac', 'hmac/', ''), IF(key_kind = 'ip', CONCAT('ip/', ipv4_prefix, '/', ipv6_prefix), key_kind))) STORED
    COMMENT 'kept by velocityd: key_form, key_kind and prefixes in one word; a check of keys normalised by another rule is refused',
  whole_rule       BOOLEAN      AS (concurrent > 0 OR repeat_secret = 'free') STORED
    COMMENT 'kept by velocityd: a plain count of txns is never enough to decide a check of the zone',
  overridden       BOOLEAN      NOT NULL DEFAULT FALSE
    COMMENT 'kept by velocityd: the zone has or had rows in zone_override; where FALSE, checks look for none',
  revision         BIGINT UNSIGNED NOT NULL DEFAULT 1
    COMMENT 'kept by velocityd: counts the changes of the zone; the ETag of the HTTP interface',
  narrowed_at      DATETIME(6)  NOT NULL DEFAULT '1970-01-01'
    COMMENT 'kept by velocityd: UTC; until a window later checks ask the whole rule: since the limit was narrowed, or whole_rule was TRUE',
  PRIMARY KEY (id),
  CONSTRAINT `zone id must be 1 or more`
    CHECK (id >= 1),
  CONSTRAINT `rate must be 0 to 1000000`
    CHECK (rate IS NOT NULL AND rate BETWEEN 0 AND 1000000),
  CONSTRAINT `window must be 1 to 31622400 seconds`
    CHECK (`window` IS NOT NULL AND `window` BETWEEN 1 AND 31622400),
  CONSTRAINT `period must be none, second, minute, hour, day, week or month`
    CHECK (period <> ''),
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
  CONSTRAINT `key_form must be clear or hmac`
    CHECK (key_form <> ''),
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
  CONSTRAINT `window of a period must be its length, 2678400 of a month`
    CHECK (period = 'none' OR `window` = CASE period
      WHEN 'second' THEN 1 WHEN 'minute' THEN 60 WHEN 'hour' THEN 3600 WHEN 'day' THEN 86400 WHEN 'week' THEN 604800 ELSE 2678400 END)
) ENGINE = InnoDB COMMENT = 'limits, one row a use case: in force at the next check'
