-- Decides the checks of a batch all at once, where none depends on another in a
-- way that only a loop could follow: a few statements for any number of checks.
-- Afterwards p_verdicts is a JSON array, in order of check and bucket, of
--   [flags, velocity, retry_after, rate, window, check_no, bucket_no],
-- the last two counted from 0. flags: 2 this bucket would block, 8 the zone is
-- enforced. The txns have ids from p_first_id on in that order or, if p_ids is not
-- NULL, those in this JSON array.
--
-- p_verdicts is NULL if the batch is odd; then nothing was recorded, and
-- decide_in_turn has to do it. Odd are a zone that is off or was narrowed within
-- its window, an override whose window is longer than the zone's, a bucket that is
-- locked out or would be now, an attempt_id that was used before, a check that is
-- refused, and a bucket that fills up amidst checks of several buckets, of which
-- some may be blocked elsewhere.
--
-- The caller holds the locks of all buckets, has read the clock since, and has
-- set group_concat_max_len high. p_zones is a list of the zones, such as '1,2'.
-- p_keys names the buckets: a JSON array of [zone_id, "literal,literal,..."] with
-- at most 500 literals each.
CREATE PROCEDURE decide_together(
  IN  p_checks   JSON,
  IN  p_zones    LONGTEXT CHARACTER SET ascii,
  IN  p_keys     LONGTEXT CHARACTER SET ascii,
  IN  p_now      DATETIME(6),
  OUT p_verdicts LONGTEXT CHARACTER SET utf8mb4,
  OUT p_first_id BIGINT UNSIGNED,
  OUT p_ids      JSON
)
-- With the rights of the procedure that calls it: by itself it is of no use to an
-- account that may only EXECUTE.
SQL SECURITY INVOKER
MODIFIES SQL DATA
the_batch: BEGIN
  DECLARE v_zones     LONGTEXT CHARACTER SET ascii;
  DECLARE v_windows   LONGTEXT CHARACTER SET ascii;
  DECLARE v_odd       BOOLEAN;
  DECLARE v_locking   BOOLEAN;
  DECLARE v_special   BOOLEAN;
  DECLARE v_shared    BOOLEAN DEFAULT JSON_CONTAINS_PATH(p_checks, 'one', '$[*].buckets[1]');
  DECLARE v_named     BOOLEAN DEFAULT FALSE;
  DECLARE v_found     INT;
  DECLARE v_differs   BOOLEAN;
  DECLARE v_own_count LONGTEXT CHARACTER SET ascii DEFAULT '';
  DECLARE v_verdicts  LONGTEXT CHARACTER SET utf8mb4;
  DECLARE v_call_id   BIGINT UNSIGNED DEFAULT UUID_SHORT();
  DECLARE v_rows      INT;
  DECLARE v_last_id   BIGINT UNSIGNED;
  SET p_verdicts = NULL, p_first_id = NULL, p_ids = NULL;

  -- The zones as they are now, once: what is counted and what is decided must
  -- speak of the same window.
  SELECT JSON_ARRAYAGG(JSON_ARRAY(z.id, z.rate, z.`window`, z.mode, z.key_rule, z.lockout)),
         MAX(z.mode = 'off' OR z.narrowed_at >= p_now - INTERVAL z.`window` SECOND),
         MAX(z.lockout > 0),
         MAX(z.overridden),
         GROUP_CONCAT(z.id, ':', z.`window`)
    INTO v_zones, v_odd, v_locking, v_special, v_windows
    FROM zone_master AS z
   WHERE FIND_IN_SET(z.id, p_zones);
  IF COALESCE(v_odd, TRUE) THEN
    LEAVE the_batch;
  END IF;
  IF v_locking AND EXISTS (
    SELECT 1
      FROM JSON_TABLE(p_checks, '$[*].buckets[*]' COLUMNS (
             zone_id    BIGINT PATH '$.zone_id',
             bucket_key VARCHAR(256) CHARACTER SET utf8mb4
               COLLATE /*!80017 utf8mb4_0900_bin */ /*M! utf8mb4_nopad_bin */ PATH '$.bucket_key')) AS b
     STRAIGHT_JOIN zone_bucket_lock AS l FORCE INDEX (PRIMARY)
        ON l.zone_id = b.zone_id
       AND l.bucket_key = b.bucket_key
     WHERE l.locked_until > p_now) THEN
    LEAVE the_batch;
  END IF;
  IF JSON_CONTAINS_PATH(p_checks, 'one', '$[*].attempt_id') THEN
    -- Odd are those that are none, come twice, or were seen before.
    SELECT COUNT(b.attempt_id) > COUNT(DISTINCT b.attempt_id)
             OR COALESCE(MAX(a.attempt_id IS NOT NULL OR b.attempt_id NOT REGEXP '^[ -~]{1,64}\\z'), FALSE),
           COUNT(b.attempt_id) > 0
      INTO v_odd, v_named
      FROM JSON_TABLE(p_checks, '$[*]' COLUMNS (
             attempt_id VARCHAR(65) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin
               PATH '$.attempt_id' ERROR ON ERROR)) AS b
      LEFT JOIN zone_attempt AS a
        ON a.attempt_id = b.attempt_id;
    IF v_odd THEN
      LEAVE the_batch;
    END IF;
  END IF;

  -- The counts. A zone that was not narrowed for a whole window admitted no more
  -- than its rate, or its overrides', so counting is bounded by that.
  SELECT GROUP_CONCAT('SELECT zone_id, bucket_key, COUNT(*) AS velocity, MIN(created_at) AS oldest, ', z.`window`, ' AS counted_in'
                      ' FROM zone_txn'
                      ' WHERE zone_id = ', k.zone_id,
                      ' AND bucket_key IN (', k.names, ')'
                      ' AND counted = TRUE'
                      ' AND created_at > ''', p_now - INTERVAL z.`window` SECOND, ''''
                      ' GROUP BY zone_id, bucket_key' SEPARATOR ' UNION ALL ')
    INTO @velocityd_count
    FROM JSON_TABLE(p_keys, '$[*]' COLUMNS (
           zone_id INT PATH '$[0]',
           names   LONGTEXT CHARACTER SET ascii PATH '$[1]')) AS k
    JOIN JSON_TABLE(v_zones, '$[*]' COLUMNS (
           id       INT PATH '$[0]',
           `window` INT PATH '$[2]')) AS z
      ON z.id = k.zone_id;
  SET @velocityd_overrides = NULL;
  IF v_special THEN
    CALL find_overrides(p_checks, p_zones, v_windows, p_now, @velocityd_overrides, v_found, v_differs);
    IF v_found > 0 AND @velocityd_overrides IS NULL THEN
      LEAVE the_batch; -- more than max_allowed_packet
    END IF;
  END IF;
  IF @velocityd_overrides IS NULL THEN
    SET @velocityd_count = CONCAT(
      'SELECT CONCAT(''['', COALESCE(GROUP_CONCAT(''['', zone_id, '','', JSON_QUOTE(bucket_key) COLLATE utf8mb4_bin, '','', velocity, '',"'', oldest, ''"]''), ''''), '']'')'
      ' INTO @velocityd_counts FROM (', @velocityd_count, ') AS c');
  ELSE
    IF v_differs THEN
      -- A limit is counted in its own window.
      SELECT MAX(g.`window` > z.`window`),
             GROUP_CONCAT(' UNION ALL SELECT zone_id, bucket_key, NULL, NULL, NULL, COUNT(*), MIN(created_at), NULL, NULL, NULL, NULL'
                          ' FROM zone_txn'
                          ' WHERE zone_id = ', g.zone_id,
                          ' AND bucket_key IN (', g.names, ')'
                          ' AND counted = TRUE'
                          ' AND created_at > ''', p_now - INTERVAL g.`window` SECOND, ''''
                          ' GROUP BY zone_id, bucket_key' SEPARATOR '')
        INTO v_odd, v_own_count
        FROM (
          SELECT o.zone_id, o.`window`,
                 GROUP_CONCAT(DISTINCT '_utf8mb4 0x', HEX(o.bucket_key)) AS names
            FROM (
              SELECT t.zone_id, t.bucket_key, t.`window`,
                     ROW_NUMBER() OVER (PARTITION BY t.zone_id, t.`window` ORDER BY t.bucket_key) DIV 500 AS part
                FROM JSON_TABLE(@velocityd_overrides, '$[*]' COLUMNS (
                       zone_id    INT PATH '$[0]',
                       bucket_key VARCHAR(256) CHARACTER SET utf8mb4
                         COLLATE /*!80017 utf8mb4_0900_bin */ /*M! utf8mb4_nopad_bin */ PATH '$[1]',
                       `window`   INT PATH '$[4]')) AS t
               WHERE t.`window` IS NOT NULL
            ) AS o
           GROUP BY o.zone_id, o.`window`, o.part
        ) AS g
        JOIN JSON_TABLE(v_zones, '$[*]' COLUMNS (
               id       INT PATH '$[0]',
               `window` INT PATH '$[2]')) AS z
          ON z.id = g.zone_id
         AND z.`window` <> g.`window`;
      IF v_odd THEN
        LEAVE the_batch; -- counting the zone's history in a longer window is not bounded
      END IF;
    END IF;
    -- What is not in its zone's window is not in a shorter one.
    SET @velocityd_count = CONCAT(
      'SELECT CONCAT(''['', GROUP_CONCAT(''['', c.zone_id, '','', JSON_QUOTE(c.bucket_key) COLLATE utf8mb4_bin, '','', COALESCE(c.velocity, 0), '','','
                   ' COALESCE(CONCAT(''"'', c.oldest, ''"''), ''null''), '','', COALESCE(CONCAT(''"'', c.action, ''"''), ''null''), '','','
                   ' COALESCE(c.rate, ''null''), '','', COALESCE(c.`window`, ''null''), '','','
                   ' COALESCE(CONCAT(''"'', c.expires_at, ''"''), ''null''), '']''), '']'')'
      ' INTO @velocityd_counts FROM ('
        'SELECT u.zone_id, u.bucket_key,'
             ' IF(MAX(u.`window`) <> MAX(u.counted_in), MAX(u.own_velocity), MAX(u.velocity)) AS velocity,'
             ' IF(MAX(u.`window`) <> MAX(u.counted_in), MIN(u.own_oldest), MIN(u.oldest)) AS oldest,'
             ' MAX(u.action) AS action, MAX(u.rate) AS rate, MAX(u.`window`) AS `window`, MAX(u.expires_at) AS expires_at'
         ' FROM ('
           'SELECT z.zone_id, z.bucket_key, z.velocity, z.oldest, z.counted_in, NULL AS own_velocity, NULL AS own_oldest,'
                ' NULL AS action, NULL AS rate, NULL AS `window`, NULL AS expires_at'
            ' FROM (', @velocityd_count, ') AS z', v_own_count,
           ' UNION ALL '
           'SELECT o.zone_id, o.bucket_key, NULL, NULL, NULL, NULL, NULL, o.action, o.rate, o.`window`, o.expires_at'
            ' FROM JSON_TABLE(@velocityd_overrides, ''$[*]'' COLUMNS ('
                    'zone_id INT PATH ''$[0]'','
                   ' bucket_key VARCHAR(256) CHARACTER SET utf8mb4'
                     ' COLLATE ' /*!80017 'utf8mb4_0900_bin' */ /*M! 'utf8mb4_nopad_bin' */ ' PATH ''$[1]'','
                   ' action VARCHAR(8) CHARACTER SET ascii PATH ''$[2]'','
                   ' rate INT PATH ''$[3]'','
                   ' `window` INT PATH ''$[4]'','
                   ' expires_at DATETIME(6) PATH ''$[5]'')) AS o'
         ') AS u'
        ' GROUP BY u.zone_id, u.bucket_key) AS c');
  END IF;
  IF @velocityd_count IS NULL THEN
    LEAVE the_batch; -- more than max_allowed_packet
  END IF;
  PREPARE velocityd_count FROM @velocityd_count;
  EXECUTE velocityd_count;
  DEALLOCATE PREPARE velocityd_count;
  SET @velocityd_count = NULL, @velocityd_overrides = NULL;
  IF @velocityd_counts IS NULL THEN
    LEAVE the_batch; -- more than max_allowed_packet: it must not pass for nothing counted
  END IF;

  -- Each bucket of each check, as if all before it in the batch were charged to
  -- it. That holds if they are lone buckets, or if there is room for all of them,
  -- or for none; otherwise the batch is odd. What comes of it is text, since that is
  -- half of what JSON_ARRAY and reading it again cost: the rows of zone_txn, and the
  -- verdicts. If any check has several buckets, the verdicts are not made yet, but
  --   [check_no, bucket_no, zone_id, bucket_key, flags, velocity_before, nth,
  --    retry_after, rate, window, attempt_id]
  -- for the next statement, with the further flag 16, not limited.
  SELECT IF(v_shared, NULL, GROUP_CONCAT(
           '(''', p_now, ''',', v.zone_id, ',_utf8mb4 0x', HEX(v.bucket_key), ',',
           v.would_block AND v.enforced, ',', v.would_block, ',', v.limited AND NOT v.would_block, ',', v_call_id,
           IF(v_named, CONCAT(',', COALESCE(CONCAT('0x', HEX(v.attempt_id)), 'NULL')), ''), ')'
           ORDER BY v.check_no)),
         CONCAT('[', GROUP_CONCAT(
           '[', IF(v_shared,
             CONCAT(v.check_no, ',', v.bucket_no, ',', v.zone_id, ',', JSON_QUOTE(v.bucket_key) COLLATE utf8mb4_bin, ',',
               2 * v.would_block + 8 * v.enforced + 16 * (NOT v.limited), ',',
               v.velocity_before, ',', v.nth, ',', v.retry_after, ',', v.rate, ',', v.`window`, ',',
               COALESCE(JSON_QUOTE(v.attempt_id), 'null')),
             CONCAT(
               2 * v.would_block + 8 * v.enforced, ',',
               LEAST(v.rate, v.velocity_before + v.limited * v.nth), ',', v.retry_after, ',', v.rate, ',', v.`window`, ',',
               v.check_no - 1, ',0')), ']'
           ORDER BY v.check_no, v.bucket_no), ']'),
         MAX(v.odd OR v.velocity_before > v.rate
             OR (v.lockout > 0 AND v.would_block AND v.limited)
             OR (v.after_shared AND v.velocity_before < v.rate AND v.would_block AND v.limited))
    INTO @velocityd_rows, v_verdicts, v_odd
    FROM (
      SELECT a.*,
             IF(a.limited, a.velocity_before + a.nth > a.rate, a.denied) AS would_block
        FROM (
          SELECT b.check_no, b.bucket_no, b.zone_id, b.bucket_key,
                 COALESCE(c.rate, z.rate) AS rate,
                 COALESCE(c.`window`, z.`window`) AS `window`,
                 z.mode = 'enforce' AS enforced,
                 COALESCE(c.action = 'limit', TRUE) AS limited,
                 COALESCE(c.action = 'deny', FALSE) AS denied,
                 COALESCE(c.velocity, 0) AS velocity_before,
                 -- A bucket that fills up now holds txns of now, too; it may hold later ones.
                 (TIMESTAMPDIFF(MICROSECOND, p_now,
                   CASE
                     WHEN c.action = 'deny' THEN COALESCE(c.expires_at, p_now + INTERVAL z.`window` SECOND)
                     ELSE INTERVAL COALESCE(c.`window`, z.`window`) SECOND
                       + COALESCE(IF(c.velocity < COALESCE(c.rate, z.rate), LEAST(c.oldest, p_now), c.oldest), p_now)
                   END) + 999999) DIV 1000000 AS retry_after,
                 ROW_NUMBER() OVER same_bucket AS nth,
                 MAX(b.shared) OVER same_bucket AS after_shared,
                 b.attempt_id, z.lockout,
                 z.id IS NULL OR b.key_rule <> z.key_rule
                   OR LAG(b.check_no) OVER same_bucket = b.check_no
                   OR (b.bucket_no > 1 AND NOT v_shared) AS odd -- "buckets" twice in one object
          FROM JSON_TABLE(p_checks, '$[*]' COLUMNS (
                 check_no FOR ORDINALITY,
                 attempt_id VARCHAR(65) CHARACTER SET utf8mb4 PATH '$.attempt_id' ERROR ON ERROR,
                 shared INT EXISTS PATH '$.buckets[1]',
                 NESTED PATH '$.buckets[*]' COLUMNS (
                   bucket_no FOR ORDINALITY,
                   zone_id    BIGINT PATH '$.zone_id',
                   bucket_key VARCHAR(256) CHARACTER SET utf8mb4
                     COLLATE /*!80017 utf8mb4_0900_bin */ /*M! utf8mb4_nopad_bin */
                     PATH '$.bucket_key',
                   key_rule   VARCHAR(16) CHARACTER SET ascii PATH '$.key_rule' ERROR ON ERROR)
               )) AS b
          LEFT JOIN (
            SELECT t.id, t.rate, t.`window`, t.mode, t.key_rule, t.lockout
              FROM JSON_TABLE(v_zones, '$[*]' COLUMNS (
                     id       INT PATH '$[0]',
                     rate     INT PATH '$[1]',
                     `window` INT PATH '$[2]',
                     mode     VARCHAR(8) CHARACTER SET ascii PATH '$[3]',
                     key_rule VARCHAR(16) CHARACTER SET ascii PATH '$[4]',
                     lockout  INT PATH '$[5]')) AS t
             LIMIT 1000000
          ) AS z
            ON z.id = b.zone_id
          LEFT JOIN (
            SELECT t.zone_id, t.bucket_key, CRC32(t.bucket_key) AS hash, t.velocity, t.oldest,
                   t.action, t.rate, t.`window`, t.expires_at
              FROM JSON_TABLE(@velocityd_counts, '$[*]' COLUMNS (
                     zone_id    INT PATH '$[0]',
                     bucket_key VARCHAR(256) CHARACTER SET utf8mb4
                       COLLATE /*!80017 utf8mb4_0900_bin */ /*M! utf8mb4_nopad_bin */
                       PATH '$[1]',
                     velocity   INT PATH '$[2]',
                     oldest     DATETIME(6) PATH '$[3]',
                     action     VARCHAR(8) CHARACTER SET ascii PATH '$[4]',
                     rate       INT PATH '$[5]',
                     `window`   INT PATH '$[6]',
                     expires_at DATETIME(6) PATH '$[7]')) AS t
             LIMIT 1000000
          ) AS c
            -- A key is too long for MariaDB to look it up in a derived table.
            ON c.zone_id = b.zone_id
           AND c.hash = CRC32(b.bucket_key)
           AND STRCMP(c.bucket_key, b.bucket_key) = 0
          WINDOW same_bucket AS (PARTITION BY b.zone_id, b.bucket_key ORDER BY b.check_no)
        ) AS a
    ) AS v;
  SET @velocityd_counts = NULL;
  IF COALESCE(v_odd, FALSE) THEN
    LEAVE the_batch;
  END IF;

  IF v_shared THEN
    -- A check is blocked if any of its buckets blocks, and then charges none.
    SELECT GROUP_CONCAT(
             '(''', p_now, ''',', v.zone_id, ',_utf8mb4 0x', HEX(v.bucket_key), ',',
             v.blocked, ',', v.would_block, ',', v.counted, ',', v_call_id,
             IF(v_named, CONCAT(',', COALESCE(CONCAT('0x', HEX(v.attempt_id)), 'NULL')), ''),
             IF(v.buckets > 1, CONCAT(',', v.check_no - 1, ',', v.buckets), ',NULL,NULL'), ')'
             ORDER BY v.check_no, v.bucket_no),
           CONCAT('[', GROUP_CONCAT(
             '[', 2 * v.would_block + 8 * v.enforced, ',',
             LEAST(v.rate, v.velocity_before + v.charged), ',', v.retry_after, ',', v.rate, ',', v.`window`, ',',
             v.check_no - 1, ',', v.bucket_no - 1, ']'
             ORDER BY v.check_no, v.bucket_no), ']')
      INTO @velocityd_rows, v_verdicts
      FROM (
        SELECT d.*,
               SUM(d.counted) OVER (PARTITION BY d.zone_id, d.bucket_key ORDER BY d.nth) AS charged
          FROM (
            SELECT c.*,
                   COUNT(*) OVER same_check AS buckets,
                   MAX(c.would_block AND c.enforced) OVER same_check AS blocked,
                   c.limited AND NOT c.would_block AND NOT MAX(c.would_block AND c.enforced) OVER same_check AS counted
              FROM (
                SELECT t.check_no, t.bucket_no, t.zone_id, t.bucket_key, t.velocity_before, t.nth, t.retry_after,
                       t.rate, t.`window`, t.attempt_id,
                       t.flags & 2 > 0 AS would_block,
                       t.flags & 8 > 0 AS enforced,
                       t.flags & 16 = 0 AS limited
                  FROM JSON_TABLE(v_verdicts, '$[*]' COLUMNS (
                         check_no    INT PATH '$[0]',
                         bucket_no   INT PATH '$[1]',
                         zone_id     INT PATH '$[2]',
                         bucket_key  VARCHAR(256) CHARACTER SET utf8mb4
                           COLLATE /*!80017 utf8mb4_0900_bin */ /*M! utf8mb4_nopad_bin */ PATH '$[3]',
                         flags       INT PATH '$[4]',
                         velocity_before INT PATH '$[5]',
                         nth         INT PATH '$[6]',
                         retry_after BIGINT PATH '$[7]',
                         rate        INT PATH '$[8]',
                         `window`    INT PATH '$[9]',
                         attempt_id  VARCHAR(64) CHARACTER SET ascii PATH '$[10]')) AS t
              ) AS c
            WINDOW same_check AS (PARTITION BY c.check_no)
          ) AS d
      ) AS v;
  END IF;

  SET @velocityd_rows = CONCAT(
    'INSERT INTO zone_txn (created_at, zone_id, bucket_key, blocked, would_block, counted, call_id',
    IF(v_named, ', attempt_id', ''), IF(v_shared, ', check_no, check_buckets', ''), ') VALUES ', @velocityd_rows);
  IF @velocityd_rows IS NULL THEN
    LEAVE the_batch; -- more than max_allowed_packet
  END IF;
  PREPARE velocityd_insert FROM @velocityd_rows;
  EXECUTE velocityd_insert;
  DEALLOCATE PREPARE velocityd_insert;
  SET @velocityd_rows = NULL;
  SET p_first_id = LAST_INSERT_ID();

  -- The ids, in order of place. Other sessions' rows may lie between, even of the
  -- same microsecond, so our own are told by the number of this call. If they are
  -- as many as their ids span, nothing lies between.
  SELECT COUNT(*), MIN(id), MAX(id)
    INTO v_rows, p_first_id, v_last_id
    FROM zone_txn
   WHERE id >= p_first_id
     AND created_at = p_now
     AND call_id = v_call_id;
  IF v_last_id - p_first_id >= v_rows THEN
    SELECT CONCAT('[', GROUP_CONCAT(id ORDER BY id), ']')
      INTO p_ids
      FROM zone_txn
     WHERE id BETWEEN p_first_id AND v_last_id
       AND created_at = p_now
       AND call_id = v_call_id;
  END IF;

  IF v_named THEN
    INSERT INTO zone_attempt (attempt_id, created_at, expires_at, answer)
    SELECT b.attempt_id,
           p_now,
           p_now + INTERVAL GREATEST(600, MAX(v.`window`)) SECOND,
           JSON_ARRAYAGG(JSON_ARRAY(b.zone_id, b.bucket_key, v.flags & 10 = 10, v.flags & 2 > 0,
             IF(p_ids IS NULL, p_first_id + b.place - 1, CAST(JSON_EXTRACT(p_ids, CONCAT('$[', b.place - 1, ']')) AS UNSIGNED)),
             v.rate, v.`window`, v.velocity,
             IF(v.flags & 2 > 0, 0, v.rate - v.velocity),
             IF(v.flags & 10 = 10, v.retry_after, 0)))
      FROM (
        SELECT a.attempt_id, a.zone_id, a.bucket_key,
               ROW_NUMBER() OVER (ORDER BY a.check_no, a.bucket_no) AS place
          FROM JSON_TABLE(p_checks, '$[*]' COLUMNS (
                 check_no FOR ORDINALITY,
                 attempt_id VARCHAR(64) CHARACTER SET ascii COLLATE ascii_bin PATH '$.attempt_id',
                 NESTED PATH '$.buckets[*]' COLUMNS (
                   bucket_no FOR ORDINALITY,
                   zone_id    INT PATH '$.zone_id',
                   bucket_key VARCHAR(256) CHARACTER SET utf8mb4
                     COLLATE /*!80017 utf8mb4_0900_bin */ /*M! utf8mb4_nopad_bin */ PATH '$.bucket_key')
               )) AS a
         LIMIT 1000000
      ) AS b
      JOIN (
        SELECT t.place, t.flags, t.velocity, t.retry_after, t.rate, t.`window`
          FROM JSON_TABLE(v_verdicts, '$[*]' COLUMNS (
                 place FOR ORDINALITY,
                 flags       INT PATH '$[0]',
                 velocity    INT PATH '$[1]',
                 retry_after BIGINT PATH '$[2]',
                 rate        INT PATH '$[3]',
                 `window`    INT PATH '$[4]')) AS t
         LIMIT 1000000
      ) AS v
        ON v.place = b.place
     WHERE b.attempt_id IS NOT NULL
     GROUP BY b.attempt_id
     ORDER BY b.attempt_id;
  END IF;
  SET p_verdicts = v_verdicts;
END
