-- Decides the checks of a batch all at once, where none depends on another in a
-- way that only a loop could follow: a few statements for any number of checks.
-- p_answers is what decide_in_turn says, or NULL if the batch is odd; then
-- nothing was recorded, and decide_in_turn has to do it. Odd are a zone that is
-- off or was narrowed within its window, a bucket that has an override, be it
-- expired, a bucket that is locked out or would be now, an attempt_id that was
-- used before, a check that is refused, and a bucket that fills up amidst checks
-- of several buckets, of which some may be blocked elsewhere.
--
-- The caller holds the locks of all buckets, has read the clock since, and has
-- set group_concat_max_len high. p_zones is a list of the zones, such as '1,2'.
-- p_keys names the buckets: a JSON array of [zone_id, "literal,literal,..."] with
-- at most 500 literals each.
CREATE PROCEDURE decide_together(
  IN  p_checks  JSON,
  IN  p_zones   LONGTEXT CHARACTER SET ascii,
  IN  p_keys    LONGTEXT CHARACTER SET ascii,
  IN  p_now     DATETIME(6),
  OUT p_answers LONGTEXT CHARACTER SET ascii
)
-- With the rights of the procedure that calls it: by itself it is of no use to an
-- account that may only EXECUTE.
SQL SECURITY INVOKER
MODIFIES SQL DATA
the_batch: BEGIN
  DECLARE v_zones    LONGTEXT CHARACTER SET ascii;
  DECLARE v_odd      BOOLEAN;
  DECLARE v_locking  BOOLEAN;
  DECLARE v_special  BOOLEAN;
  DECLARE v_shared   BOOLEAN DEFAULT JSON_CONTAINS_PATH(p_checks, 'one', '$[*].buckets[1]');
  DECLARE v_named    BOOLEAN DEFAULT FALSE;
  DECLARE v_verdicts LONGTEXT CHARACTER SET utf8mb4;
  DECLARE v_call_id  BIGINT UNSIGNED DEFAULT UUID_SHORT();
  DECLARE v_rows     INT;
  DECLARE v_first_id BIGINT UNSIGNED;
  DECLARE v_last_id  BIGINT UNSIGNED;
  DECLARE v_ids      LONGTEXT CHARACTER SET ascii DEFAULT '[]';
  SET p_answers = NULL;

  -- The zones as they are now, once: what is counted and what is decided must
  -- speak of the same window.
  SELECT JSON_ARRAYAGG(JSON_ARRAY(z.id, z.rate, z.`window`, z.mode, z.key_rule, z.lockout)),
         MAX(z.mode = 'off' OR z.narrowed_at >= p_now - INTERVAL z.`window` SECOND),
         MAX(z.lockout > 0),
         MAX(z.overridden)
    INTO v_zones, v_odd, v_locking, v_special
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
  IF v_special THEN
    CALL find_overridden(p_checks, v_odd);
    IF v_odd THEN
      LEAVE the_batch;
    END IF;
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

  SELECT CONCAT('SELECT COALESCE(JSON_ARRAYAGG(JSON_ARRAY(zone_id, bucket_key, velocity, oldest)), ''[]'')'
                ' INTO @velocityd_counts FROM (',
           GROUP_CONCAT('SELECT zone_id, bucket_key, COUNT(*) AS velocity, MIN(created_at) AS oldest'
                        ' FROM zone_txn'
                        ' WHERE zone_id = ', k.zone_id,
                        ' AND bucket_key IN (', k.names, ')'
                        ' AND counted = TRUE'
                        ' AND created_at > ''', p_now - INTERVAL z.`window` SECOND, ''''
                        ' GROUP BY zone_id, bucket_key' SEPARATOR ' UNION ALL '),
           ') AS c')
    INTO @velocityd_count
    FROM JSON_TABLE(p_keys, '$[*]' COLUMNS (
           zone_id INT PATH '$[0]',
           names   LONGTEXT CHARACTER SET ascii PATH '$[1]')) AS k
    JOIN JSON_TABLE(v_zones, '$[*]' COLUMNS (
           id       INT PATH '$[0]',
           `window` INT PATH '$[2]')) AS z
      ON z.id = k.zone_id;
  IF @velocityd_count IS NULL THEN
    LEAVE the_batch; -- more than max_allowed_packet
  END IF;
  PREPARE velocityd_count FROM @velocityd_count;
  EXECUTE velocityd_count;
  DEALLOCATE PREPARE velocityd_count;
  SET @velocityd_count = NULL;

  -- Each bucket of each check, as if all before it in the batch were charged to
  -- it. That holds if they are lone buckets, or if there is room for all of them,
  -- or for none; otherwise the batch is odd. A verdict is
  --   [place, zone_id, bucket_key, flags, velocity, retry_after, attempt_id]
  -- and, if any check has several buckets, further
  --   [..., check_no, bucket_no, buckets or nth, velocity_before].
  -- flags: 1 the check is blocked, 2 this bucket would block, 4 counted, 8 the zone
  -- is enforced. JSON is what such a statement costs most, so it is short.
  SELECT JSON_ARRAYAGG(IF(v_shared,
           JSON_ARRAY(NULL, v.zone_id, v.bucket_key, 2 * v.would_block + 8 * v.enforced, NULL, v.retry_after, v.attempt_id,
             v.check_no, v.bucket_no, v.nth, v.velocity_before),
           JSON_ARRAY(v.check_no, v.zone_id, v.bucket_key,
             (v.would_block AND v.enforced) + 2 * v.would_block + 4 * (NOT v.would_block) + 8 * v.enforced,
             LEAST(v.rate, v.velocity_before + v.nth), v.retry_after, v.attempt_id))),
         MAX(v.odd OR v.velocity_before > v.rate
             OR (v.lockout > 0 AND v.would_block)
             OR (v.after_shared AND v.velocity_before < v.rate AND v.would_block))
    INTO v_verdicts, v_odd
    FROM (
      SELECT a.*,
             a.velocity_before + a.nth > a.rate AS would_block
        FROM (
          SELECT b.check_no, b.bucket_no, b.zone_id, b.bucket_key,
                 z.rate, z.`window`, z.mode = 'enforce' AS enforced,
                 COALESCE(c.velocity, 0) AS velocity_before,
                 -- A bucket that fills up now holds txns of now, too; it may hold later ones.
                 (TIMESTAMPDIFF(MICROSECOND, p_now, INTERVAL z.`window` SECOND
                   + COALESCE(IF(c.velocity < z.rate, LEAST(c.oldest, p_now), c.oldest), p_now)) + 999999)
                   DIV 1000000 AS retry_after,
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
            SELECT t.zone_id, t.bucket_key, CRC32(t.bucket_key) AS hash, t.velocity, t.oldest
              FROM JSON_TABLE(@velocityd_counts, '$[*]' COLUMNS (
                     zone_id    INT PATH '$[0]',
                     bucket_key VARCHAR(256) CHARACTER SET utf8mb4
                       COLLATE /*!80017 utf8mb4_0900_bin */ /*M! utf8mb4_nopad_bin */
                       PATH '$[1]',
                     velocity   INT PATH '$[2]',
                     oldest     DATETIME(6) PATH '$[3]')) AS t
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
    SELECT JSON_ARRAYAGG(JSON_ARRAY(v.place, v.zone_id, v.bucket_key,
             v.blocked + 2 * v.would_block + 4 * v.counted + 8 * v.enforced,
             LEAST(z.rate, v.velocity_before + v.charged), v.retry_after, v.attempt_id,
             v.check_no, v.bucket_no, v.buckets))
      INTO v_verdicts
      FROM (
        SELECT d.*,
               ROW_NUMBER() OVER (ORDER BY d.check_no, d.bucket_no) AS place,
               SUM(d.counted) OVER (PARTITION BY d.zone_id, d.bucket_key ORDER BY d.nth) AS charged
          FROM (
            SELECT c.*,
                   COUNT(*) OVER same_check AS buckets,
                   MAX(c.would_block AND c.enforced) OVER same_check AS blocked,
                   NOT c.would_block AND NOT MAX(c.would_block AND c.enforced) OVER same_check AS counted
              FROM (
                SELECT t.zone_id, t.bucket_key, t.retry_after, t.attempt_id, t.check_no, t.bucket_no, t.nth,
                       t.velocity_before,
                       t.flags & 2 > 0 AS would_block,
                       t.flags & 8 > 0 AS enforced
                  FROM JSON_TABLE(v_verdicts, '$[*]' COLUMNS (
                         zone_id     INT PATH '$[1]',
                         bucket_key  VARCHAR(256) CHARACTER SET utf8mb4
                           COLLATE /*!80017 utf8mb4_0900_bin */ /*M! utf8mb4_nopad_bin */ PATH '$[2]',
                         flags       INT PATH '$[3]',
                         retry_after BIGINT PATH '$[5]',
                         attempt_id  VARCHAR(64) CHARACTER SET ascii PATH '$[6]',
                         check_no    INT PATH '$[7]',
                         bucket_no   INT PATH '$[8]',
                         nth         INT PATH '$[9]',
                         velocity_before INT PATH '$[10]')) AS t
              ) AS c
            WINDOW same_check AS (PARTITION BY c.check_no)
          ) AS d
      ) AS v
      JOIN (
        SELECT t.id, t.rate
          FROM JSON_TABLE(v_zones, '$[*]' COLUMNS (
                 id   INT PATH '$[0]',
                 rate INT PATH '$[1]')) AS t
         LIMIT 1000000
      ) AS z
        ON z.id = v.zone_id;
  END IF;

  INSERT INTO zone_txn (created_at, zone_id, bucket_key, blocked, would_block, counted,
                        attempt_id, call_id, check_no, check_buckets)
  SELECT p_now, v.zone_id, v.bucket_key, v.flags & 1, v.flags & 2 > 0, v.flags & 4 > 0,
         v.attempt_id,
         v_call_id,
         IF(v.buckets > 1, v.check_no - 1, NULL),
         IF(v.buckets > 1, v.buckets, NULL)
    FROM JSON_TABLE(v_verdicts, '$[*]' COLUMNS (
           place      INT PATH '$[0]',
           zone_id    INT PATH '$[1]',
           bucket_key VARCHAR(256) CHARACTER SET utf8mb4
             COLLATE /*!80017 utf8mb4_0900_bin */ /*M! utf8mb4_nopad_bin */ PATH '$[2]',
           flags      INT PATH '$[3]',
           attempt_id VARCHAR(64) CHARACTER SET ascii PATH '$[6]',
           check_no   INT PATH '$[7]',
           buckets    INT PATH '$[9]')) AS v
   ORDER BY v.place;
  SET v_first_id = LAST_INSERT_ID();

  -- The ids, in order of place. Other sessions' rows may lie between, even of the
  -- same microsecond, so our own are told by the number of this call. If they are
  -- as many as their ids span, nothing lies between.
  SELECT COUNT(*), MIN(id), MAX(id)
    INTO v_rows, v_first_id, v_last_id
    FROM zone_txn
   WHERE id >= v_first_id
     AND created_at = p_now
     AND call_id = v_call_id;
  IF v_last_id - v_first_id >= v_rows THEN
    SELECT JSON_ARRAYAGG(JSON_ARRAY(t.place, t.id))
      INTO v_ids
      FROM (
        SELECT id,
               ROW_NUMBER() OVER (ORDER BY id) AS place
          FROM zone_txn
         WHERE id BETWEEN v_first_id AND v_last_id
           AND created_at = p_now
           AND call_id = v_call_id
      ) AS t;
  END IF;

  SELECT JSON_ARRAYAGG(JSON_ARRAY(COALESCE(v.check_no, v.place) - 1, COALESCE(v.bucket_no, 1) - 1, 'decided',
           v.flags & 10 = 10, v.flags & 2 > 0, COALESCE(t.id, v_first_id + v.place - 1),
           z.rate, z.`window`, v.velocity,
           IF(v.flags & 2 > 0, 0, z.rate - v.velocity),
           IF(v.flags & 10 = 10, v.retry_after, 0)))
    INTO p_answers
    FROM JSON_TABLE(v_verdicts, '$[*]' COLUMNS (
           place       INT PATH '$[0]',
           zone_id     INT PATH '$[1]',
           flags       INT PATH '$[3]',
           velocity    INT PATH '$[4]',
           retry_after BIGINT PATH '$[5]',
           check_no    INT PATH '$[7]',
           bucket_no   INT PATH '$[8]')) AS v
    JOIN (
      SELECT t.id, t.rate, t.`window`
        FROM JSON_TABLE(v_zones, '$[*]' COLUMNS (
               id       INT PATH '$[0]',
               rate     INT PATH '$[1]',
               `window` INT PATH '$[2]')) AS t
       LIMIT 1000000
    ) AS z
      ON z.id = v.zone_id
    LEFT JOIN (
      SELECT t.place, t.id
        FROM JSON_TABLE(v_ids, '$[*]' COLUMNS (
               place INT PATH '$[0]',
               id    BIGINT UNSIGNED PATH '$[1]')) AS t
       LIMIT 1000000
    ) AS t
      ON t.place = v.place;

  IF v_named THEN
    INSERT INTO zone_attempt (attempt_id, created_at, expires_at, answer)
    SELECT v.attempt_id,
           p_now,
           p_now + INTERVAL GREATEST(600, MAX(a.`window`)) SECOND,
           JSON_ARRAYAGG(JSON_ARRAY(v.zone_id, v.bucket_key, a.blocked, a.would_block, a.txn_id,
             a.rate, a.`window`, a.velocity, a.remaining, a.retry_after))
      FROM (
        SELECT COALESCE(t.check_no, t.place) AS check_no, COALESCE(t.bucket_no, 1) AS bucket_no,
               t.zone_id, t.bucket_key, t.attempt_id
          FROM JSON_TABLE(v_verdicts, '$[*]' COLUMNS (
                 place      INT PATH '$[0]',
                 zone_id    INT PATH '$[1]',
                 bucket_key VARCHAR(256) CHARACTER SET utf8mb4
                   COLLATE /*!80017 utf8mb4_0900_bin */ /*M! utf8mb4_nopad_bin */ PATH '$[2]',
                 attempt_id VARCHAR(64) CHARACTER SET ascii PATH '$[6]',
                 check_no   INT PATH '$[7]',
                 bucket_no  INT PATH '$[8]')) AS t
         WHERE t.attempt_id IS NOT NULL
         LIMIT 1000000
      ) AS v
      JOIN (
        SELECT t.check_no, t.bucket_no, t.blocked, t.would_block, t.txn_id, t.rate, t.`window`, t.velocity, t.remaining, t.retry_after
          FROM JSON_TABLE(p_answers, '$[*]' COLUMNS (
                 check_no    INT PATH '$[0]',
                 bucket_no   INT PATH '$[1]',
                 blocked     INT PATH '$[3]',
                 would_block INT PATH '$[4]',
                 txn_id      BIGINT UNSIGNED PATH '$[5]',
                 rate        INT PATH '$[6]',
                 `window`    INT PATH '$[7]',
                 velocity    INT PATH '$[8]',
                 remaining   INT PATH '$[9]',
                 retry_after BIGINT PATH '$[10]')) AS t
         LIMIT 1000000
      ) AS a
        ON a.check_no = v.check_no - 1
       AND a.bucket_no = v.bucket_no - 1
     GROUP BY v.check_no, v.attempt_id
     ORDER BY v.attempt_id;
  END IF;
END
