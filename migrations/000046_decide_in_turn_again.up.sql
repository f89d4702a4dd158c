-- Decides the checks of a batch one after the other: all that
-- check_velocity_batch may be asked, and what decide_together leaves to it. The
-- caller holds the locks of all buckets of the checks whose zones are all in
-- p_zones, a list such as '1,2', and has read the clock since. p_answers is a
-- JSON array of [check_no, bucket_no, status, blocked, would_block, txn_id,
-- rate, window, velocity, remaining, retry_after, checked_at]; what is missing
-- at the end is NULL, and checked_at then p_now.
CREATE PROCEDURE decide_in_turn(
  IN  p_checks  JSON,
  IN  p_zones   LONGTEXT CHARACTER SET ascii,
  IN  p_now     DATETIME(6),
  OUT p_answers LONGTEXT CHARACTER SET ascii
)
-- With the rights of the procedure that calls it: by itself it is of no use to an
-- account that may only EXECUTE.
SQL SECURITY INVOKER
MODIFIES SQL DATA
BEGIN
  DECLARE v_done           BOOLEAN DEFAULT FALSE;
  DECLARE v_check_no       INT;
  DECLARE v_attempt_id     VARCHAR(65) CHARACTER SET utf8mb4;
  DECLARE v_bucket_no      INT;
  DECLARE v_pass           INT;
  DECLARE v_buckets        INT;
  DECLARE v_odd            VARCHAR(16) CHARACTER SET ascii;
  DECLARE v_is_first       BOOLEAN;
  DECLARE v_zone_id        BIGINT;
  DECLARE v_key            VARCHAR(256) CHARACTER SET utf8mb4 COLLATE /*!80017 utf8mb4_0900_bin */ /*M! utf8mb4_nopad_bin */;
  DECLARE v_rate           INT;
  DECLARE v_window         INT;
  DECLARE v_mode           VARCHAR(8) CHARACTER SET ascii;
  DECLARE v_lockout        INT;
  DECLARE v_key_rule       VARCHAR(16) CHARACTER SET ascii;
  DECLARE v_overridden     BOOLEAN;
  DECLARE v_steady         BOOLEAN;
  DECLARE v_velocity       INT;
  DECLARE v_oldest         DATETIME(6);
  DECLARE v_wait           BIGINT;
  DECLARE v_counts         BOOLEAN;
  DECLARE v_blocked        BOOLEAN;
  DECLARE v_call_id        BIGINT UNSIGNED;
  DECLARE v_longest        INT;
  DECLARE v_remembered     BOOLEAN;
  DECLARE v_same           BOOLEAN;
  DECLARE v_replay         TEXT CHARACTER SET ascii;
  DECLARE v_conflict       TEXT CHARACTER SET ascii;
  DECLARE v_answered       DATETIME(6);
  DECLARE v_first_answer   LONGTEXT CHARACTER SET utf8mb4;
  DECLARE v_answer         LONGTEXT CHARACTER SET utf8mb4;
  DECLARE v_verdict        VARCHAR(255) CHARACTER SET utf8mb4;
  DECLARE v_overrides      TEXT CHARACTER SET utf8mb4 DEFAULT '{}';

  -- The buckets in the order of decision, with the zones as they are now. A
  -- check of several buckets comes twice: pass 1 asks whether any of them
  -- blocks, pass 2 records. Only zones that existed before the locks are known: one
  -- created since has to wait for the next check.
  DECLARE asked CURSOR FOR
    SELECT c.check_no, c.attempt_id, c.bucket_no, p.pass, c.buckets,
           CASE
             WHEN c.bucket_no IS NULL OR c.times > 1 THEN 'malformed'
             WHEN c.stale THEN 'stale'
             WHEN NOT c.decidable THEN IF(c.known, 'refused', 'unknown_zone')
           END AS odd,
           c.bucket_no = 1 AND (p.pass = 1 OR c.buckets = 1) AS is_first,
           c.zone_id, c.bucket_key, c.rate, c.`window`, c.mode, c.lockout, c.key_rule, c.overridden,
           c.steady
      FROM (
        SELECT b.check_no,
               b.attempt_id,
               b.bucket_no,
               b.zone_id,
               b.bucket_key,
               b.key_rule <> z.key_rule AS stale,
               z.rate, z.`window`, z.mode, z.lockout, z.key_rule, z.overridden,
               NOT z.overridden AND z.narrowed_at < p_now - INTERVAL z.`window` SECOND AS steady,
               z.id IS NOT NULL AS known,
               COUNT(*) OVER (PARTITION BY b.check_no) AS buckets,
               MIN(z.id IS NOT NULL) OVER (PARTITION BY b.check_no) AS decidable,
               COUNT(*) OVER (PARTITION BY b.check_no, b.zone_id, b.bucket_key) AS times
          FROM JSON_TABLE(p_checks, '$[*]' COLUMNS (
                 check_no FOR ORDINALITY,
                 attempt_id VARCHAR(65) CHARACTER SET utf8mb4 PATH '$.attempt_id' ERROR ON ERROR,
                 NESTED PATH '$.buckets[*]' COLUMNS (
                   bucket_no FOR ORDINALITY,
                   zone_id    BIGINT PATH '$.zone_id',
                   bucket_key VARCHAR(256) CHARACTER SET utf8mb4
                     COLLATE /*!80017 utf8mb4_0900_bin */ /*M! utf8mb4_nopad_bin */
                     PATH '$.bucket_key',
                   key_rule   VARCHAR(16) CHARACTER SET ascii PATH '$.key_rule' ERROR ON ERROR)
               )) AS b
          LEFT JOIN zone_master AS z
            ON z.id = b.zone_id
           AND FIND_IN_SET(z.id, p_zones)
      ) AS c
      JOIN (SELECT 1 AS pass UNION ALL SELECT 2) AS p
        ON p.pass = 2
        OR (c.buckets > 1 AND c.decidable)
     ORDER BY c.check_no, p.pass, c.bucket_no;

  DECLARE CONTINUE HANDLER FOR NOT FOUND SET v_done = TRUE;
  SET p_answers = '';

  OPEN asked;
  the_checks: LOOP
    FETCH asked
     INTO v_check_no, v_attempt_id, v_bucket_no, v_pass, v_buckets, v_odd, v_is_first,
          v_zone_id, v_key, v_rate, v_window, v_mode, v_lockout, v_key_rule, v_overridden,
          v_steady;
    IF v_done THEN
      LEAVE the_checks;
    END IF;
    IF v_odd IS NOT NULL THEN
      IF v_odd = 'malformed' THEN
        BEGIN
          DECLARE v_message VARCHAR(128)
            DEFAULT CONCAT('check ', v_check_no - 1, ' must name each of its buckets once, and at least one');
          SIGNAL SQLSTATE '45000' SET MYSQL_ERRNO = 45400, MESSAGE_TEXT = v_message;
        END;
      END IF;
      IF v_odd = 'stale' THEN
        SIGNAL SQLSTATE '45000'
          SET MYSQL_ERRNO = 45410, MESSAGE_TEXT = 'a zone has another key_rule by now';
      END IF;
      SET p_answers = CONCAT(p_answers, ',[', v_check_no - 1, ',', v_bucket_no - 1, ',"', v_odd, '"]');
      ITERATE the_checks;
    END IF;

    IF v_is_first THEN
      SET v_blocked = FALSE;
    END IF;
    IF v_attempt_id IS NOT NULL THEN
      IF v_is_first THEN
        CALL find_attempt(v_attempt_id, p_now, v_remembered, v_first_answer, v_answered);
        SET v_answer = '', v_longest = 0, v_replay = '', v_conflict = '', v_same = TRUE, v_done = FALSE;
      END IF;
      IF v_remembered THEN
        IF v_pass = 2 THEN
          SET v_verdict = NULL;
          SELECT CONCAT(f.blocked, ',', f.would_block, ',', f.txn_id, ',', f.rate, ',', f.`window`, ',', f.velocity, ',',
                   f.remaining, ',', f.retry_after, ',"', v_answered, '"]')
            INTO v_verdict
            FROM JSON_TABLE(v_first_answer, '$[*]' COLUMNS (
                   zone_id     BIGINT PATH '$[0]',
                   bucket_key  VARCHAR(256) CHARACTER SET utf8mb4 COLLATE /*!80017 utf8mb4_0900_bin */ /*M! utf8mb4_nopad_bin */ PATH '$[1]',
                   blocked     INT PATH '$[2]',
                   would_block INT PATH '$[3]',
                   txn_id      BIGINT UNSIGNED PATH '$[4]',
                   rate        INT PATH '$[5]',
                   `window`    INT PATH '$[6]',
                   velocity    INT PATH '$[7]',
                   remaining   INT PATH '$[8]',
                   retry_after BIGINT PATH '$[9]')) AS f
           WHERE f.zone_id = v_zone_id
             AND f.bucket_key = v_key;
          SET v_done = FALSE, v_same = v_same AND v_verdict IS NOT NULL;
          SET v_replay = CONCAT(v_replay, ',[', v_check_no - 1, ',', v_bucket_no - 1, ',"decided",', COALESCE(v_verdict, ''));
          SET v_conflict = CONCAT(v_conflict, ',[', v_check_no - 1, ',', v_bucket_no - 1, ',"conflict"]');
          IF v_bucket_no = v_buckets THEN
            -- The same buckets in any order, or others.
            SET p_answers = CONCAT(p_answers,
              IF(v_same AND JSON_LENGTH(v_first_answer) = v_buckets, v_replay, v_conflict));
          END IF;
        END IF;
        ITERATE the_checks;
      END IF;
    END IF;

    SET v_velocity = NULL, v_wait = 0, v_counts = TRUE;
    -- A bucket of a zone that was neither narrowed nor overridden for a whole window
    -- cannot hold more than `rate` counted txns, so a plain count is bounded.
    IF v_steady THEN
      SELECT COUNT(*), MIN(created_at)
        INTO v_velocity, v_oldest
        FROM zone_txn
       WHERE zone_id = v_zone_id
         AND bucket_key = v_key
         AND counted = TRUE
         AND created_at > p_now - INTERVAL v_window SECOND;
    END IF;
    -- All but room in a zone that does no more than limit. v_wait: how long until an
    -- attempt would pass, in microseconds; 0 is now.
    IF v_velocity IS NULL OR v_velocity >= v_rate OR v_lockout > 0 OR v_mode = 'off' THEN
      BEGIN
        DECLARE v_override_id  BIGINT UNSIGNED;
        DECLARE v_action       VARCHAR(8) CHARACTER SET ascii;
        DECLARE v_own_rate     INT;
        DECLARE v_own_window   INT;
        DECLARE v_expires_at   DATETIME(6);
        DECLARE v_locked_until DATETIME(6);

        IF v_overridden AND v_mode <> 'off' THEN
          -- Once for both passes: it could come, go or change between them, and the
          -- check would be blocked with some of its buckets charged.
          IF v_buckets = 1 OR v_pass = 1 THEN
            CALL find_override(v_zone_id, v_key, v_key_rule LIKE 'ip%', p_now,
              v_override_id, v_action, v_own_rate, v_own_window, v_expires_at);
            SET v_overrides = JSON_SET(v_overrides, CONCAT('$.b', v_bucket_no),
              JSON_ARRAY(v_action, v_own_rate, v_own_window, v_expires_at));
          ELSE
            SET v_action = NULLIF(JSON_UNQUOTE(JSON_EXTRACT(v_overrides, CONCAT('$.b', v_bucket_no, '[0]'))), 'null'),
                v_own_rate = NULLIF(JSON_UNQUOTE(JSON_EXTRACT(v_overrides, CONCAT('$.b', v_bucket_no, '[1]'))), 'null'),
                v_own_window = NULLIF(JSON_UNQUOTE(JSON_EXTRACT(v_overrides, CONCAT('$.b', v_bucket_no, '[2]'))), 'null'),
                v_expires_at = NULLIF(JSON_UNQUOTE(JSON_EXTRACT(v_overrides, CONCAT('$.b', v_bucket_no, '[3]'))), 'null');
          END IF;
          IF v_action = 'limit' THEN
            SET v_rate = v_own_rate, v_window = v_own_window;
          END IF;
        END IF;
        -- Never more than `rate` index entries, whatever the history: a plain count
        -- would read millions after a DBA made a busy zone's window longer. When they
        -- are `rate`, the bucket is full until the oldest of them leaves the window.
        -- Txns later than p_now, left by a clock that stepped back, count too.
        IF v_velocity IS NULL OR v_velocity > v_rate THEN
          SELECT COUNT(*), MIN(newest.created_at)
            INTO v_velocity, v_oldest
            FROM (
              SELECT created_at
                FROM zone_txn
               WHERE zone_id = v_zone_id
                 AND bucket_key = v_key
                 AND counted = TRUE
                 AND created_at > p_now - INTERVAL v_window SECOND
               ORDER BY created_at DESC
               LIMIT v_rate
            ) AS newest;
        END IF;

        CASE
          WHEN v_mode = 'off' OR v_action = 'allow' THEN
            SET v_counts = FALSE;
          WHEN v_action = 'deny' THEN
            SET v_wait = COALESCE(TIMESTAMPDIFF(MICROSECOND, p_now, v_expires_at), v_window * 1000000);
          ELSE
            IF v_velocity >= v_rate THEN
              -- A rate of 0 has no oldest txn: its window.
              SET v_wait = COALESCE(
                TIMESTAMPDIFF(MICROSECOND, p_now, v_oldest + INTERVAL v_window SECOND), v_window * 1000000);
            END IF;
            IF v_lockout > 0 THEN
              -- With what earlier checks of this batch have locked.
              CALL lock_out(v_zone_id, v_key, p_now, v_velocity >= v_rate, v_locked_until);
              SET v_wait = GREATEST(v_wait, COALESCE(TIMESTAMPDIFF(MICROSECOND, p_now, v_locked_until), 0));
            END IF;
        END CASE;
      END;
    END IF;
    IF v_wait > 0 AND v_mode = 'enforce' THEN
      SET v_blocked = TRUE;
    END IF;
    IF v_buckets > 1 THEN
      IF v_pass = 1 THEN
        ITERATE the_checks;
      END IF;
      SET v_call_id = COALESCE(v_call_id, UUID_SHORT());
    END IF;

    SET v_counts = v_counts AND v_wait = 0 AND NOT v_blocked;
    IF v_buckets = 1 AND v_attempt_id IS NULL THEN
      INSERT INTO zone_txn (created_at, zone_id, bucket_key, blocked, would_block, counted)
      VALUES (p_now, v_zone_id, v_key, v_blocked, v_wait > 0, v_counts);
    ELSE
      INSERT INTO zone_txn (created_at, zone_id, bucket_key, blocked, would_block, counted,
                            attempt_id, call_id, check_no, check_buckets)
      VALUES (p_now, v_zone_id, v_key, v_blocked, v_wait > 0, v_counts,
              v_attempt_id,
              IF(v_buckets > 1, v_call_id, NULL),
              IF(v_buckets > 1, v_check_no - 1, NULL),
              IF(v_buckets > 1, v_buckets, NULL));
    END IF;
    SET v_verdict = CONCAT(
      v_wait > 0 AND v_mode = 'enforce', ',', v_wait > 0, ',', LAST_INSERT_ID(), ',', v_rate, ',', v_window, ',',
      LEAST(v_velocity, v_rate) + v_counts, ',',
      IF(v_wait > 0, 0, v_rate - LEAST(v_velocity, v_rate) - v_counts), ',',
      IF(v_wait > 0 AND v_mode = 'enforce', (v_wait + 999999) DIV 1000000, 0), ']');
    SET p_answers = CONCAT(p_answers, ',[', v_check_no - 1, ',', v_bucket_no - 1, ',"decided",', v_verdict);
    IF v_attempt_id IS NOT NULL THEN
      -- Under the bucket's name, what was just answered for it.
      SET v_answer = CONCAT_WS(',', NULLIF(v_answer, ''),
        CONCAT('[', v_zone_id, ',', JSON_QUOTE(v_key), ',', v_verdict));
      SET v_longest = GREATEST(v_longest, v_window);
      IF v_bucket_no = v_buckets THEN
        INSERT INTO zone_attempt (attempt_id, created_at, expires_at, answer)
        VALUES (v_attempt_id, p_now, p_now + INTERVAL GREATEST(600, v_longest) SECOND, CONCAT('[', v_answer, ']'));
      END IF;
    END IF;
  END LOOP;
  CLOSE asked;
  SET p_answers = CONCAT('[', SUBSTRING(p_answers, 2), ']');
END
