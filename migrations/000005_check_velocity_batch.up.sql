-- Many checks in one CALL, one lock pass and one commit. The argument is an
-- array of checks, each an array of buckets:
--   CALL check_velocity_batch('[[{"zone_id":1,"bucket_key":"alice"},
--                                {"zone_id":2,"bucket_key":"203.0.113.9"}],
--                               [{"zone_id":1,"bucket_key":"bob"}]]')
-- Checks are decided in array order. Each is all or nothing: blocked if any of
-- its buckets blocks, and then none of them is charged. The answer has one row
-- for each bucket of each check, positions counted from 0:
--   check_no, bucket_no, status, blocked, txn_id, rate, window, remaining,
--   retry_after, checked_at
-- blocked speaks of this bucket; the check is blocked if any of its rows is. In
-- a check that names a zone which does not exist the rows of such zones have
-- status 'unknown_zone', the others 'refused'; it records nothing, leaves no
-- lock row and harms no neighbour. All other rows have status 'decided'.
--
-- A malformed argument is refused whole with error 45400 and records nothing.
-- It owns its transaction: call it outside of one (inside, error 1568).
CREATE PROCEDURE check_velocity_batch(IN p_checks JSON)
SQL SECURITY DEFINER
MODIFIES SQL DATA
BEGIN
  DECLARE v_in_tx     BOOLEAN DEFAULT FALSE;
  DECLARE v_done      BOOLEAN DEFAULT FALSE;
  DECLARE v_locked    INT;
  DECLARE v_zones     TEXT DEFAULT '';
  DECLARE v_last_zone BIGINT DEFAULT 0;
  DECLARE v_now       DATETIME(6);
  DECLARE v_check_no  INT;
  DECLARE v_bucket_no INT;
  DECLARE v_pass      INT;
  DECLARE v_buckets   INT;
  DECLARE v_times     INT;
  DECLARE v_known     BOOLEAN;
  DECLARE v_decidable BOOLEAN;
  DECLARE v_zone_id   BIGINT;
  DECLARE v_key       VARCHAR(256) CHARACTER SET utf8mb4 COLLATE /*!80017 utf8mb4_0900_bin */ /*M! utf8mb4_nopad_bin */;
  DECLARE v_rate      INT;
  DECLARE v_window    INT;
  DECLARE v_velocity  INT;
  DECLARE v_oldest    DATETIME(6);
  DECLARE v_exceeded  BOOLEAN;
  DECLARE v_blocked   BOOLEAN;
  DECLARE v_retry     INT;
  DECLARE v_message   VARCHAR(128);
  DECLARE v_answers   LONGTEXT CHARACTER SET utf8mb4 DEFAULT '';

  -- The buckets of all checks whose zones exist, each once, in lock order.
  DECLARE wanted_locks CURSOR FOR
    SELECT DISTINCT c.zone_id, c.bucket_key
      FROM (
        SELECT b.zone_id,
               b.bucket_key,
               MIN(z.id IS NOT NULL) OVER (PARTITION BY b.check_no) AS decidable
          FROM JSON_TABLE(p_checks, '$[*]' COLUMNS (
                 check_no FOR ORDINALITY,
                 NESTED PATH '$[*]' COLUMNS (
                   zone_id    BIGINT PATH '$.zone_id',
                   bucket_key VARCHAR(256) CHARACTER SET utf8mb4
                     COLLATE /*!80017 utf8mb4_0900_bin */ /*M! utf8mb4_nopad_bin */
                     PATH '$.bucket_key')
               )) AS b
          LEFT JOIN zone_master AS z ON z.id = b.zone_id
      ) AS c
     WHERE c.decidable
     ORDER BY c.zone_id, c.bucket_key;

  -- The buckets in the order of decision, with the zones as they are now. A
  -- check of several buckets comes twice: pass 1 asks whether any of them
  -- blocks, pass 2 records. Only zones whose buckets were locked are known: one
  -- created since has to wait for the next check.
  DECLARE asked CURSOR FOR
    SELECT c.check_no, c.bucket_no, p.pass, c.buckets, c.times, c.known, c.decidable,
           c.zone_id, c.bucket_key, c.rate, c.`window`
      FROM (
        SELECT b.check_no,
               b.bucket_no,
               b.zone_id,
               b.bucket_key,
               z.rate,
               z.`window`,
               z.id IS NOT NULL AS known,
               COUNT(*) OVER (PARTITION BY b.check_no) AS buckets,
               MIN(z.id IS NOT NULL) OVER (PARTITION BY b.check_no) AS decidable,
               COUNT(*) OVER (PARTITION BY b.check_no, b.zone_id, b.bucket_key) AS times
          FROM JSON_TABLE(p_checks, '$[*]' COLUMNS (
                 check_no FOR ORDINALITY,
                 NESTED PATH '$[*]' COLUMNS (
                   bucket_no FOR ORDINALITY,
                   zone_id    BIGINT PATH '$.zone_id',
                   bucket_key VARCHAR(256) CHARACTER SET utf8mb4
                     COLLATE /*!80017 utf8mb4_0900_bin */ /*M! utf8mb4_nopad_bin */
                     PATH '$.bucket_key')
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
    -- A transaction of the caller's, refused with error 1568, stays as it was.
    IF v_in_tx THEN
      ROLLBACK;
    END IF;
    RESIGNAL;
  END;

  SET TRANSACTION ISOLATION LEVEL READ COMMITTED;
  START TRANSACTION;
  SET v_in_tx = TRUE;

  -- Lock order: zone_id, bucket_key; the same in every session, so that two
  -- batches with keys in common wait and never deadlock.
  OPEN wanted_locks;
  the_locks: LOOP
    FETCH wanted_locks INTO v_zone_id, v_key;
    IF v_done THEN
      LEAVE the_locks;
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
      -- First use: see check_velocity.
      INSERT INTO zone_bucket_lock (zone_id, bucket_key)
      VALUES (v_zone_id, v_key)
      ON DUPLICATE KEY UPDATE zone_id = v_zone_id;
    END IF;
    IF v_zone_id <> v_last_zone THEN
      SET v_last_zone = v_zone_id;
      SET v_zones = CONCAT_WS(',', NULLIF(v_zones, ''), v_zone_id);
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
     INTO v_check_no, v_bucket_no, v_pass, v_buckets, v_times, v_known, v_decidable,
          v_zone_id, v_key, v_rate, v_window;
    IF v_done THEN
      LEAVE the_checks;
    END IF;
    IF v_bucket_no IS NULL OR v_times > 1 THEN
      SET v_message = CONCAT('check ', v_check_no - 1, ' must name each of its buckets once, and at least one');
      SIGNAL SQLSTATE '45000' SET MYSQL_ERRNO = 45400, MESSAGE_TEXT = v_message;
    END IF;
    IF NOT v_decidable THEN
      SET v_answers = CONCAT(v_answers, ',[', v_check_no - 1, ',', v_bucket_no - 1, ',"',
        IF(v_known, 'refused', 'unknown_zone'), '"]');
      ITERATE the_checks;
    END IF;

    -- As in check_velocity: never more than v_rate index entries. The txns of
    -- earlier checks of this batch are among them.
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
    SET v_exceeded = v_velocity >= v_rate;
    IF v_bucket_no = 1 AND (v_pass = 1 OR v_buckets = 1) THEN
      SET v_blocked = FALSE;
    END IF;
    SET v_blocked = v_blocked OR v_exceeded;
    IF v_pass = 1 THEN
      ITERATE the_checks;
    END IF;

    INSERT INTO zone_txn (created_at, zone_id, bucket_key, blocked, exceeded, counted)
    VALUES (v_now, v_zone_id, v_key, v_blocked, v_exceeded, NOT v_blocked);
    SET v_retry = 0;
    IF v_exceeded THEN
      SET v_retry = COALESCE(
        (TIMESTAMPDIFF(MICROSECOND, v_now, v_oldest + INTERVAL v_window SECOND) + 999999) DIV 1000000,
        v_window);
    END IF;
    SET v_answers = CONCAT(v_answers, ',[', v_check_no - 1, ',', v_bucket_no - 1, ',"decided",',
      v_exceeded, ',', LAST_INSERT_ID(), ',', v_rate, ',', v_window, ',',
      v_rate - v_velocity - (NOT v_blocked), ',', v_retry, ']');
  END LOOP;
  CLOSE asked;
  COMMIT;

  SELECT a.check_no, a.bucket_no, a.status, a.blocked, a.txn_id, a.rate, a.`window`,
         a.remaining, a.retry_after, v_now AS checked_at
    FROM JSON_TABLE(CONCAT('[', SUBSTRING(v_answers, 2), ']'), '$[*]' COLUMNS (
           check_no    INT PATH '$[0]',
           bucket_no   INT PATH '$[1]',
           status      VARCHAR(16) PATH '$[2]',
           blocked     BOOLEAN PATH '$[3]',
           txn_id      BIGINT UNSIGNED PATH '$[4]',
           rate        INT PATH '$[5]',
           `window`    INT PATH '$[6]',
           remaining   INT PATH '$[7]',
           retry_after INT PATH '$[8]')) AS a
   ORDER BY a.check_no, a.bucket_no;
END
