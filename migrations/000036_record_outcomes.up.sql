-- The work of report_outcome and report_outcomes: in one transaction, under the
-- locks of all buckets concerned. p_answers is a JSON array of one status for
-- each report, in order: recorded, unknown_txn, blocked, conflict or expired.
CREATE PROCEDURE record_outcomes(IN p_reports JSON, OUT p_answers LONGTEXT CHARACTER SET ascii)
-- With the rights of the procedure that calls it: by itself it is of no use to an
-- account that may only EXECUTE.
SQL SECURITY INVOKER
MODIFIES SQL DATA
BEGIN
  DECLARE v_in_tx    BOOLEAN DEFAULT FALSE;
  DECLARE v_done     BOOLEAN DEFAULT FALSE;
  DECLARE v_now      DATETIME(6);
  DECLARE v_txn_id   BIGINT UNSIGNED;
  DECLARE v_outcome  VARCHAR(16) CHARACTER SET utf8mb4;
  DECLARE v_zone_id  INT;
  DECLARE v_key      VARCHAR(256) CHARACTER SET utf8mb4 COLLATE /*!80017 utf8mb4_0900_bin */ /*M! utf8mb4_nopad_bin */;
  DECLARE v_siblings LONGTEXT CHARACTER SET ascii;
  DECLARE v_groups   LONGTEXT CHARACTER SET ascii DEFAULT '';
  DECLARE v_before   VARCHAR(16) CHARACTER SET ascii;
  DECLARE v_blocked  BOOLEAN;
  DECLARE v_late     BOOLEAN;
  DECLARE v_status   VARCHAR(16) CHARACTER SET ascii;
  DECLARE v_failures TEXT CHARACTER SET ascii;

  DECLARE given CURSOR FOR
    SELECT r.txn_id, r.outcome
      FROM JSON_TABLE(p_reports, '$[*]' COLUMNS (
             report_no FOR ORDINALITY,
             txn_id  BIGINT UNSIGNED PATH '$.txn_id',
             outcome VARCHAR(16) CHARACTER SET utf8mb4 PATH '$.outcome')) AS r
     ORDER BY r.report_no;
  -- v_groups holds for each report the ids of all txns of its check.
  DECLARE wanted_locks CURSOR FOR
    SELECT DISTINCT t.zone_id, t.bucket_key
      FROM JSON_TABLE(CONCAT('[', SUBSTRING(v_groups, 2), ']'), '$[*]' COLUMNS (
             NESTED PATH '$.txns[*]' COLUMNS (id BIGINT UNSIGNED PATH '$'))) AS g
      JOIN zone_txn AS t ON t.id = g.id
     ORDER BY t.zone_id, t.bucket_key;
  DECLARE reports CURSOR FOR
    SELECT g.outcome, g.txns
      FROM JSON_TABLE(CONCAT('[', SUBSTRING(v_groups, 2), ']'), '$[*]' COLUMNS (
             report_no FOR ORDINALITY,
             outcome VARCHAR(16) CHARACTER SET utf8mb4 PATH '$.outcome',
             txns    JSON PATH '$.txns')) AS g
     ORDER BY g.report_no;
  DECLARE resets CURSOR FOR
    SELECT t.zone_id, t.bucket_key
      FROM JSON_TABLE(v_siblings, '$[*]' COLUMNS (id BIGINT UNSIGNED PATH '$')) AS g
      JOIN zone_txn AS t ON t.id = g.id
      JOIN zone_master AS z ON z.id = t.zone_id
     WHERE z.reset_on_success;

  DECLARE CONTINUE HANDLER FOR NOT FOUND SET v_done = TRUE;
  DECLARE EXIT HANDLER FOR SQLEXCEPTION
  BEGIN
    IF v_in_tx THEN
      ROLLBACK;
    END IF;
    RESIGNAL;
  END;

  IF COALESCE(JSON_TYPE(p_reports), '') <> 'ARRAY' THEN
    SIGNAL SQLSTATE '45000'
      SET MYSQL_ERRNO = 45400, MESSAGE_TEXT = 'reports must be a JSON array of objects with txn_id and outcome';
  END IF;

  SET TRANSACTION ISOLATION LEVEL READ COMMITTED;
  START TRANSACTION;
  SET v_in_tx = TRUE;
  -- Which txns belong to which check never changes, so it is looked up before
  -- anything is locked. Not before the transaction: a session without autocommit
  -- would begin one of its own by reading.
  OPEN given;
  the_given: LOOP
    FETCH given INTO v_txn_id, v_outcome;
    IF v_done THEN
      LEAVE the_given;
    END IF;
    IF v_txn_id IS NULL OR v_outcome IS NULL OR v_outcome NOT IN ('success', 'failure') THEN
      SIGNAL SQLSTATE '45000'
        SET MYSQL_ERRNO = 45400, MESSAGE_TEXT = 'a report must have a txn_id, and an outcome that is success or failure';
    END IF;
    CALL find_check(v_txn_id, v_siblings);
    SET v_groups = CONCAT(v_groups, ',{"outcome":"', v_outcome, '","txns":', v_siblings, '}');
    SET v_done = FALSE;
  END LOOP;
  CLOSE given;
  SET v_done = FALSE;

  -- The same order of locks as in check_velocity_batch.
  OPEN wanted_locks;
  the_locks: LOOP
    FETCH wanted_locks INTO v_zone_id, v_key;
    IF v_done THEN
      LEAVE the_locks;
    END IF;
    -- Whether the row is there or a cleaner took it: the exclusive lock.
    INSERT INTO zone_bucket_lock (zone_id, bucket_key)
    VALUES (v_zone_id, v_key)
    ON DUPLICATE KEY UPDATE zone_id = v_zone_id;
  END LOOP;
  CLOSE wanted_locks;
  SET v_done = FALSE;
  SET v_now = UTC_TIMESTAMP(6);

  SET p_answers = '';
  OPEN reports;
  the_reports: LOOP
    FETCH reports INTO v_outcome, v_siblings;
    IF v_done THEN
      LEAVE the_reports;
    END IF;
    SELECT MAX(t.blocked),
           MAX(t.outcome),
           MAX(z.counts = 'failures' AND v_now > t.created_at + INTERVAL COALESCE(z.reserve_ttl, z.`window`) SECOND),
           GROUP_CONCAT(IF(z.counts = 'failures', t.id, NULL))
      INTO v_blocked, v_before, v_late, v_failures
      FROM JSON_TABLE(v_siblings, '$[*]' COLUMNS (id BIGINT UNSIGNED PATH '$')) AS g
      JOIN zone_txn AS t ON t.id = g.id
      LEFT JOIN zone_master AS z ON z.id = t.zone_id;
    SET v_status = CASE
      WHEN v_blocked IS NULL THEN 'unknown_txn'
      WHEN v_blocked THEN 'blocked'
      WHEN v_before <> v_outcome THEN 'conflict'
      WHEN v_before IS NULL AND v_late AND v_outcome = 'success' THEN 'expired'
      ELSE 'recorded'
    END;
    SET p_answers = CONCAT(p_answers, ',"', v_status, '"');

    IF v_status = 'recorded' AND v_before IS NULL THEN
      -- Not joined with zone_master, whose rows an UPDATE would lock: it would wait
      -- for whoever edits a zone, with the buckets locked, and could deadlock.
      UPDATE zone_txn AS t
        JOIN JSON_TABLE(v_siblings, '$[*]' COLUMNS (id BIGINT UNSIGNED PATH '$')) AS g ON g.id = t.id
         SET t.outcome = v_outcome,
             -- The place of a success is given back where failures count.
             t.counted = t.counted AND NOT (v_outcome = 'success' AND COALESCE(FIND_IN_SET(t.id, v_failures) > 0, FALSE));
      IF v_outcome = 'success' THEN
        OPEN resets;
        the_resets: LOOP
          FETCH resets INTO v_zone_id, v_key;
          IF v_done THEN
            LEAVE the_resets;
          END IF;
          CALL forget_counted(v_zone_id, v_key, v_now);
          SET v_done = FALSE;
        END LOOP;
        CLOSE resets;
      END IF;
    END IF;
    SET v_done = FALSE;
  END LOOP;
  CLOSE reports;
  COMMIT;
  SET p_answers = CONCAT('[', SUBSTRING(p_answers, 2), ']');
END
