-- Many checks in one CALL, one lock pass and one commit. The argument is an
-- array of checks, each with its buckets and, if the caller wants a retry to be
-- counted once, an attempt_id of 1 to 64 printable ASCII characters:
--   CALL check_velocity_batch('[{"buckets":[{"zone_id":1,"bucket_key":"alice"},
--                                          {"zone_id":2,"bucket_key":"203.0.113.9"}]},
--                               {"buckets":[{"zone_id":1,"bucket_key":"bob"}],
--                                "attempt_id":"3f6c"}]')
-- Checks are decided in array order. Each is all or nothing: blocked if any of
-- its buckets blocks, and then none of them is charged. The answer has one row
-- for each bucket of each check, positions counted from 0:
--   check_no, bucket_no, status, blocked, would_block, txn_id, rate, window,
--   velocity, remaining, retry_after, checked_at
-- blocked speaks of this bucket; the check is blocked if any of its rows is. In
-- a check that names a zone which does not exist the rows of such zones have
-- status 'unknown_zone', the others 'refused'; it records nothing, leaves no
-- lock row and harms no neighbour. A check whose attempt_id was used with other
-- buckets has status 'conflict' throughout, and records nothing. All other rows
-- have status 'decided', now or when the attempt_id was first seen.
--
-- A malformed argument is refused whole and records nothing: error 45400, or the
-- engine's own for text that is no JSON (MySQL 3140) and for a key with control
-- characters (CHECK constraint: MySQL 3819, MariaDB 4025). So is one with a
-- bucket whose key_rule, if given, is not the zone's: error 45410. Error 1062: an
-- attempt_id was used for other buckets at this very moment; call again.
-- It owns its transaction: call it outside of one (inside, error 1568).
CREATE PROCEDURE check_velocity_batch(IN p_checks JSON)
SQL SECURITY DEFINER
MODIFIES SQL DATA
BEGIN
  DECLARE v_in_tx          BOOLEAN DEFAULT FALSE;
  DECLARE v_committed      BOOLEAN DEFAULT FALSE;
  DECLARE v_done           BOOLEAN DEFAULT FALSE;
  DECLARE v_locked         INT;
  DECLARE v_zones          MEDIUMTEXT DEFAULT '';
  DECLARE v_last_zone      BIGINT DEFAULT 0;
  DECLARE v_check_no       INT;
  DECLARE v_attempt_id     VARCHAR(65) CHARACTER SET utf8mb4;
  DECLARE v_bucket_no      INT;
  DECLARE v_pass           INT;
  DECLARE v_buckets        INT;
  DECLARE v_decidable      BOOLEAN;
  DECLARE v_rules_hold     BOOLEAN DEFAULT FALSE;
  DECLARE v_odd            VARCHAR(16) CHARACTER SET ascii;
  DECLARE v_is_first       BOOLEAN;
  DECLARE v_zone_id        BIGINT;
  DECLARE v_key            VARCHAR(256) CHARACTER SET utf8mb4 COLLATE /*!80017 utf8mb4_0900_bin */ /*M! utf8mb4_nopad_bin */;
  DECLARE v_special        BOOLEAN;
  DECLARE v_rate           INT DEFAULT NULL;
  DECLARE v_window         INT;
  DECLARE v_mode           VARCHAR(8) CHARACTER SET ascii;
  DECLARE v_lockout        BIGINT;
  DECLARE v_lockout_factor DECIMAL(5,2);
  DECLARE v_lockout_max    BIGINT;
  DECLARE v_lockout_decay  INT;
  DECLARE v_key_rule       VARCHAR(16) CHARACTER SET ascii DEFAULT NULL;
  DECLARE v_overridden     BOOLEAN;
  DECLARE v_steady         BOOLEAN;
  DECLARE v_locked_until   DATETIME(6) DEFAULT NULL;
  DECLARE v_lockout_us     BIGINT DEFAULT 0;
  DECLARE v_override_id    BIGINT UNSIGNED DEFAULT NULL;
  DECLARE v_action         VARCHAR(8) CHARACTER SET ascii DEFAULT NULL;
  DECLARE v_own_rate       INT;
  DECLARE v_own_window     INT;
  DECLARE v_expires_at     DATETIME(6);
  DECLARE v_now            DATETIME(6);
  DECLARE v_velocity       INT;
  DECLARE v_oldest         DATETIME(6);
  DECLARE v_wait           BIGINT;
  DECLARE v_counts         BOOLEAN;
  DECLARE v_blocked        BOOLEAN;
  DECLARE v_call_id        BIGINT UNSIGNED DEFAULT NULL;
  DECLARE v_longest        INT;
  DECLARE v_remembered     BOOLEAN;
  DECLARE v_same           BOOLEAN;
  DECLARE v_replay         TEXT CHARACTER SET ascii;
  DECLARE v_conflict       TEXT CHARACTER SET ascii;
  DECLARE v_answered       DATETIME(6);
  DECLARE v_first_answer   LONGTEXT CHARACTER SET utf8mb4;
  DECLARE v_answer         LONGTEXT CHARACTER SET utf8mb4;
  DECLARE v_verdict        VARCHAR(255) CHARACTER SET ascii;
  DECLARE v_overrides      TEXT CHARACTER SET utf8mb4 DEFAULT '{}';
  DECLARE v_message        VARCHAR(128);
  DECLARE v_answers        LONGTEXT CHARACTER SET ascii DEFAULT '';

  -- The buckets in zones that exist, each once, in lock order. To be locked are
  -- those of the checks of which all zones exist.
  DECLARE wanted_locks CURSOR FOR
    SELECT c.zone_id, c.bucket_key, MAX(c.decidable)
      FROM (
        SELECT b.zone_id,
               b.bucket_key,
               z.id IS NOT NULL AS known,
               MIN(z.id IS NOT NULL) OVER (PARTITION BY b.check_no) AS decidable
          FROM JSON_TABLE(p_checks, '$[*]' COLUMNS (
                 check_no FOR ORDINALITY,
                 NESTED PATH '$.buckets[*]' COLUMNS (
                   bucket_no FOR ORDINALITY,
                   zone_id    BIGINT PATH '$.zone_id',
                   bucket_key VARCHAR(256) CHARACTER SET utf8mb4
                     COLLATE /*!80017 utf8mb4_0900_bin */ /*M! utf8mb4_nopad_bin */
                     PATH '$.bucket_key')
               )) AS b
          LEFT JOIN zone_master AS z ON z.id = b.zone_id
      ) AS c
     WHERE c.known
     GROUP BY c.zone_id, c.bucket_key
     ORDER BY c.zone_id, c.bucket_key;

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
           c.special, c.steady
      FROM (
        SELECT b.check_no,
               b.attempt_id,
               b.bucket_no,
               b.zone_id,
               b.bucket_key,
               b.key_rule <> z.key_rule AS stale,
               z.rate, z.`window`, z.mode, z.lockout, z.key_rule, z.overridden,
               z.lockout > 0 OR z.overridden OR z.mode = 'off' AS special,
               NOT z.overridden AND z.changed_at < v_now - INTERVAL z.`window` SECOND AS steady,
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
           AND FIND_IN_SET(z.id, v_zones)
      ) AS c
      JOIN (SELECT 1 AS pass UNION ALL SELECT 2) AS p
        ON p.pass = 2
        OR (c.buckets > 1 AND c.decidable)
     ORDER BY c.check_no, p.pass, c.bucket_no;

  DECLARE CONTINUE HANDLER FOR NOT FOUND SET v_done = TRUE;
  DECLARE EXIT HANDLER FOR SQLEXCEPTION
  BEGIN
    IF v_committed THEN
      RESIGNAL SET MYSQL_ERRNO = 45504; -- only the answer is lost
    -- A transaction of the caller's, refused with error 1568, stays as it was.
    ELSEIF v_in_tx THEN
      ROLLBACK;
    END IF;
    RESIGNAL;
  END;

  -- JSON that is no list of checks would otherwise be an empty one.
  IF COALESCE(JSON_TYPE(p_checks), '') <> 'ARRAY' THEN
    SIGNAL SQLSTATE '45000'
      SET MYSQL_ERRNO = 45400, MESSAGE_TEXT = 'checks must be a JSON array of objects with buckets';
  END IF;

  SET TRANSACTION ISOLATION LEVEL READ COMMITTED;
  START TRANSACTION;
  SET v_in_tx = TRUE;

  -- Lock order: zone_id, bucket_key; the same in every session, so that two
  -- batches with keys in common wait and never deadlock.
  OPEN wanted_locks;
  the_locks: LOOP
    FETCH wanted_locks INTO v_zone_id, v_key, v_decidable;
    IF v_done THEN
      LEAVE the_locks;
    END IF;
    IF v_zone_id <> v_last_zone THEN
      SET v_last_zone = v_zone_id;
      SET v_zones = CONCAT_WS(',', NULLIF(v_zones, ''), v_zone_id);
    END IF;
    IF NOT v_decidable THEN
      ITERATE the_locks;
    END IF;
    IF v_key IS NULL OR CHAR_LENGTH(v_key) NOT BETWEEN 1 AND 255 THEN
      SIGNAL SQLSTATE '45000'
        SET MYSQL_ERRNO = 45400, MESSAGE_TEXT = 'bucket_key must be 1 to 255 characters';
    END IF;
    SET v_locked = NULL;
    SELECT 1
      INTO v_locked
      FROM zone_bucket_lock
     WHERE zone_id = v_zone_id
       AND bucket_key = v_key
       FOR UPDATE;
    IF v_locked IS NULL THEN
      -- First use: see check_velocity_keyed. No row is made before it is known that
      -- the call will not be refused.
      IF NOT v_rules_hold THEN
        IF EXISTS (
          SELECT 1
            FROM JSON_TABLE(p_checks, '$[*].buckets[*]' COLUMNS (
                   zone_id  BIGINT PATH '$.zone_id',
                   key_rule VARCHAR(16) CHARACTER SET ascii PATH '$.key_rule' ERROR ON ERROR)) AS b
            JOIN zone_master AS z ON z.id = b.zone_id
           WHERE b.key_rule <> z.key_rule) THEN
          SIGNAL SQLSTATE '45000'
            SET MYSQL_ERRNO = 45410, MESSAGE_TEXT = 'a zone has another key_rule by now';
        END IF;
        SET v_rules_hold = TRUE;
      END IF;
      INSERT INTO zone_bucket_lock (zone_id, bucket_key)
      VALUES (v_zone_id, v_key)
      ON DUPLICATE KEY UPDATE zone_id = v_zone_id;
    END IF;
    SET v_done = FALSE;
  END LOOP;
  CLOSE wanted_locks;
  SET v_done = FALSE;

  -- In a statement of its own, once, when all locks are held.
  SET v_now = UTC_TIMESTAMP(6);

  OPEN asked;
  the_checks: LOOP
    FETCH asked
     INTO v_check_no, v_attempt_id, v_bucket_no, v_pass, v_buckets, v_odd, v_is_first,
          v_zone_id, v_key, v_rate, v_window, v_mode, v_lockout, v_key_rule, v_overridden,
          v_special, v_steady;
    IF v_done THEN
      LEAVE the_checks;
    END IF;
    IF v_odd IS NOT NULL THEN
      IF v_odd = 'malformed' THEN
        SET v_message = CONCAT('check ', v_check_no - 1, ' must name each of its buckets once, and at least one');
        SIGNAL SQLSTATE '45000' SET MYSQL_ERRNO = 45400, MESSAGE_TEXT = v_message;
      END IF;
      IF v_odd = 'stale' THEN
        SIGNAL SQLSTATE '45000'
          SET MYSQL_ERRNO = 45410, MESSAGE_TEXT = 'a zone has another key_rule by now';
      END IF;
      SET v_answers = CONCAT(v_answers, ',[', v_check_no - 1, ',', v_bucket_no - 1, ',"', v_odd, '"]');
      ITERATE the_checks;
    END IF;

    IF v_is_first THEN
      SET v_blocked = FALSE;
    END IF;
    IF v_attempt_id IS NOT NULL THEN
      IF v_is_first THEN
        CALL find_attempt(v_attempt_id, v_now, v_remembered, v_first_answer, v_answered);
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
            SET v_answers = CONCAT(v_answers,
              IF(v_same AND JSON_LENGTH(v_first_answer) = v_buckets, v_replay, v_conflict));
          END IF;
        END IF;
        ITERATE the_checks;
      END IF;
    END IF;

    IF v_special THEN
      SET v_action = NULL;
      IF v_lockout > 0 THEN
        -- With what earlier checks of this batch have locked.
        SELECT locked_until, lockout_us
          INTO v_locked_until, v_lockout_us
          FROM zone_bucket_lock
         WHERE zone_id = v_zone_id
           AND bucket_key = v_key;
      END IF;
      IF v_overridden AND v_mode <> 'off' THEN
        -- Once for both passes: it could come, go or change between them, and the
        -- check would be blocked with some of its buckets charged.
        IF v_buckets = 1 OR v_pass = 1 THEN
          CALL find_override(v_zone_id, v_key, v_key_rule LIKE 'ip%', v_now,
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
    END IF;

    -- A bucket of a zone that was neither changed nor overridden for a whole window
    -- cannot hold more than `rate` counted txns, so a plain count is bounded.
    IF v_steady THEN
      SELECT COUNT(*), MIN(created_at)
        INTO v_velocity, v_oldest
        FROM zone_txn
       WHERE zone_id = v_zone_id
         AND bucket_key = v_key
         AND counted = TRUE
         AND created_at > v_now - INTERVAL v_window SECOND;
    END IF;
    -- Else never more than `rate` index entries, whatever the history: a plain count
    -- would read millions after a DBA made a busy zone's window longer. When they
    -- are `rate`, the bucket is full until the oldest of them leaves the window.
    -- Txns later than v_now, left by a clock that stepped back, count too.
    IF NOT v_steady OR v_velocity > v_rate THEN
      SELECT COUNT(*), MIN(newest.created_at)
        INTO v_velocity, v_oldest
        FROM (
          SELECT created_at
            FROM zone_txn
           WHERE zone_id = v_zone_id
             AND bucket_key = v_key
             AND counted = TRUE
             AND created_at > v_now - INTERVAL v_window SECOND
           ORDER BY created_at DESC
           LIMIT v_rate
        ) AS newest;
    END IF;

    -- How long until an attempt would pass, in microseconds; 0 is now.
    SET v_wait = 0, v_counts = TRUE;
    IF v_velocity >= v_rate OR v_special THEN
      CASE
        WHEN v_special AND (v_mode = 'off' OR v_action = 'allow') THEN
          SET v_counts = FALSE;
        WHEN v_special AND (v_action = 'deny') THEN
          SET v_wait = COALESCE(TIMESTAMPDIFF(MICROSECOND, v_now, v_expires_at), v_window * 1000000);
        WHEN v_velocity < v_rate AND (v_lockout = 0 OR v_locked_until IS NULL OR v_locked_until <= v_now) THEN
          BEGIN END; -- room
        ELSE
          IF v_velocity >= v_rate THEN
            -- A rate of 0 has no oldest txn: its window.
            SET v_wait = COALESCE(
              TIMESTAMPDIFF(MICROSECOND, v_now, v_oldest + INTERVAL v_window SECOND), v_window * 1000000);
          END IF;
          IF v_lockout > 0 THEN
            IF v_locked_until IS NULL OR v_locked_until <= v_now THEN
              -- Found full: the bucket is locked from now on, for longer than the last
              -- time if that was not long ago.
              SELECT lockout_factor, lockout_max, lockout_decay
                INTO v_lockout_factor, v_lockout_max, v_lockout_decay
                FROM zone_master
               WHERE id = v_zone_id;
              SET v_lockout_us = LEAST(v_lockout_max * 1000000,
                IF(v_lockout_us > 0 AND v_now <= v_locked_until + INTERVAL v_lockout_decay SECOND,
                   FLOOR(v_lockout_us * v_lockout_factor),
                   v_lockout * 1000000));
              SET v_locked_until = v_now + INTERVAL v_lockout_us MICROSECOND;
              UPDATE zone_bucket_lock
                 SET locked_until = v_locked_until,
                     lockout_us = v_lockout_us
               WHERE zone_id = v_zone_id
                 AND bucket_key = v_key;
            END IF;
            SET v_wait = GREATEST(v_wait, TIMESTAMPDIFF(MICROSECOND, v_now, v_locked_until));
          END IF;
      END CASE;
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
      VALUES (v_now, v_zone_id, v_key, v_blocked, v_wait > 0, v_counts);
    ELSE
      INSERT INTO zone_txn (created_at, zone_id, bucket_key, blocked, would_block, counted,
                            attempt_id, call_id, check_no, check_buckets)
      VALUES (v_now, v_zone_id, v_key, v_blocked, v_wait > 0, v_counts,
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
    SET v_answers = CONCAT(v_answers, ',[', v_check_no - 1, ',', v_bucket_no - 1, ',"decided",', v_verdict);
    IF v_attempt_id IS NOT NULL THEN
      -- Under the bucket's name, what was just answered for it.
      SET v_answer = CONCAT_WS(',', NULLIF(v_answer, ''),
        CONCAT('[', v_zone_id, ',', JSON_QUOTE(v_key), ',', v_verdict));
      SET v_longest = GREATEST(v_longest, v_window);
      IF v_bucket_no = v_buckets THEN
        INSERT INTO zone_attempt (attempt_id, created_at, expires_at, answer)
        VALUES (v_attempt_id, v_now, v_now + INTERVAL GREATEST(600, v_longest) SECOND, CONCAT('[', v_answer, ']'));
      END IF;
    END IF;
  END LOOP;
  CLOSE asked;
  COMMIT;
  SET v_committed = TRUE;

  SELECT a.check_no, a.bucket_no, a.status, a.blocked, a.would_block, a.txn_id, a.rate, a.`window`,
         a.velocity, a.remaining, a.retry_after, COALESCE(a.checked_at, v_now) AS checked_at
    FROM JSON_TABLE(CONCAT('[', SUBSTRING(v_answers, 2), ']'), '$[*]' COLUMNS (
           check_no    INT PATH '$[0]',
           bucket_no   INT PATH '$[1]',
           status      VARCHAR(16) PATH '$[2]',
           blocked     BOOLEAN PATH '$[3]',
           would_block BOOLEAN PATH '$[4]',
           txn_id      BIGINT UNSIGNED PATH '$[5]',
           rate        INT PATH '$[6]',
           `window`    INT PATH '$[7]',
           velocity    INT PATH '$[8]',
           remaining   INT PATH '$[9]',
           retry_after BIGINT PATH '$[10]',
           checked_at  DATETIME(6) PATH '$[11]')) AS a
   ORDER BY a.check_no, a.bucket_no;
END
