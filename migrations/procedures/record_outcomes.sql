CREATE /*M! OR REPLACE */ PROCEDURE record_outcomes(IN p_reports JSON, OUT p_answers LONGTEXT CHARACTER SET ascii)
COMMENT 'internal: called by report_outcome and report_outcomes'
SQL SECURITY INVOKER
MODIFIES SQL DATA
BEGIN
  -- Records outcomes in one transaction, under the locks of all buckets concerned. p_answers
  -- becomes a JSON array with an object for each report, in order: txn_id, outcome and status.
  -- report_outcomes lists the statuses.
  DECLARE v_done BOOLEAN DEFAULT FALSE;
  DECLARE v_created_at, v_now DATETIME(6);
  DECLARE v_txn_id, v_outcome, v_status VARCHAR(32) CHARACTER SET utf8mb4;
  DECLARE v_zone_id INT;
  DECLARE v_key VARCHAR(256) CHARACTER SET utf8mb4 COLLATE /*!80017 utf8mb4_0900_bin */ /*M! utf8mb4_nopad_bin */;
  DECLARE v_txns TEXT CHARACTER SET ascii;
  DECLARE v_checks LONGTEXT CHARACTER SET ascii DEFAULT ''; -- what was reported, and of which txns

  DECLARE given CURSOR FOR
    SELECT r.txn_id, r.outcome
      FROM JSON_TABLE(p_reports, '$[*]' COLUMNS (
             report_no FOR ORDINALITY,
             txn_id VARCHAR(32) CHARACTER SET utf8mb4 PATH '$.txn_id',
             outcome VARCHAR(32) CHARACTER SET utf8mb4 PATH '$.outcome')) AS r
     ORDER BY r.report_no;
  DECLARE wanted_locks CURSOR FOR
    SELECT DISTINCT t.zone_id, t.bucket_key
      FROM JSON_TABLE(CONCAT('[', SUBSTRING(v_checks, 2), ']'), '$[*]' COLUMNS (
             created_at DATETIME(6) PATH '$.created_at',
             NESTED PATH '$.txns[*]' COLUMNS (id BIGINT UNSIGNED PATH '$'))) AS c
      JOIN zone_txn AS t ON t.id = c.id AND t.created_at = c.created_at
     ORDER BY t.zone_id, t.bucket_key;
  DECLARE reports CURSOR FOR
    SELECT c.txn_id, c.outcome, c.created_at, c.txns
      FROM JSON_TABLE(CONCAT('[', SUBSTRING(v_checks, 2), ']'), '$[*]' COLUMNS (
             report_no FOR ORDINALITY,
             txn_id VARCHAR(32) CHARACTER SET utf8mb4 PATH '$.txn_id',
             outcome VARCHAR(16) CHARACTER SET utf8mb4 PATH '$.outcome',
             created_at DATETIME(6) PATH '$.created_at',
             txns JSON PATH '$.txns')) AS c
     ORDER BY c.report_no;
  DECLARE CONTINUE HANDLER FOR NOT FOUND SET v_done = TRUE;

  SET SESSION max_sort_length = 1024; -- with a shorter one, long keys would be locked in another order than by other sessions
  SET TRANSACTION ISOLATION LEVEL READ COMMITTED;
  START TRANSACTION READ WRITE;
  BEGIN
    DECLARE EXIT HANDLER FOR SQLEXCEPTION
    BEGIN
      ROLLBACK AND NO CHAIN NO RELEASE;
      RESIGNAL;
    END;
    IF COALESCE(JSON_TYPE(p_reports), '') <> 'ARRAY' THEN
      SIGNAL SQLSTATE '45000'
        SET MYSQL_ERRNO = 45400, MESSAGE_TEXT = 'reports must be a JSON array of objects with txn_id and outcome';
    END IF;
    -- The txns of a check never change, so they are looked up before anything is locked.
    OPEN given;
    the_given: LOOP
      FETCH given INTO v_txn_id, v_outcome;
      IF v_done THEN
        LEAVE the_given;
      END IF;
      -- The id is read as text, because engines make a number of 1.6 and of '1abc', and the outcome is
      -- compared as bytes, because 'süccess' is the same text as 'success'.
      IF v_txn_id IS NULL OR v_txn_id NOT REGEXP '^[0-9]{1,20}\\z'
         OR CAST(v_txn_id AS DECIMAL(20)) > 18446744073709551615
         OR v_outcome IS NULL OR HEX(v_outcome) NOT IN (HEX('success'), HEX('failure')) THEN
        SIGNAL SQLSTATE '45000'
          SET MYSQL_ERRNO = 45400, MESSAGE_TEXT = 'a report must have a txn_id, and an outcome that is success or failure';
      END IF;
      CALL txns_of_check(v_txn_id, v_created_at, v_txns);
      SET v_checks = CONCAT(v_checks, ',{"txn_id":"', v_txn_id, '","outcome":"', v_outcome, '","created_at":"', COALESCE(v_created_at, '1970-01-01'),
        '","txns":', v_txns, '}');
    END LOOP;
    CLOSE given;

    -- The order of locks is that of lock_checks.
    SET v_done = FALSE;
    OPEN wanted_locks;
    COMMIT AND NO CHAIN NO RELEASE; -- gives the metadata lock of zone_txn back: see lock_checks
    SET TRANSACTION ISOLATION LEVEL READ COMMITTED;
    START TRANSACTION READ WRITE;
    the_locks: LOOP
      FETCH wanted_locks INTO v_zone_id, v_key;
      IF v_done THEN
        LEAVE the_locks;
      END IF;
      -- This takes the exclusive lock of the row, and makes the row if somebody deleted it.
      INSERT INTO zone_bucket_lock (zone_id, bucket_key)
      VALUES (v_zone_id, v_key)
      ON DUPLICATE KEY UPDATE zone_id = v_zone_id;
    END LOOP;
    CLOSE wanted_locks;
    /*M! IF @@secure_timestamp = 'NO' THEN */ SET timestamp = DEFAULT; /*M! END IF; */
    SET v_now = UTC_TIMESTAMP(6);

    SET v_done = FALSE, p_answers = '';
    OPEN reports;
    the_reports: LOOP
      FETCH reports INTO v_txn_id, v_outcome, v_created_at, v_txns;
      IF v_done THEN
        LEAVE the_reports;
      END IF;
      CALL record_outcome(v_txns, v_created_at, v_outcome, v_now, v_status);
      SET p_answers = CONCAT(p_answers, ',{"txn_id":"', v_txn_id, '","outcome":"', v_outcome, '","status":"', v_status, '"}');
    END LOOP;
    CLOSE reports;
    COMMIT AND NO CHAIN NO RELEASE;
  END;
  SET p_answers = CONCAT('[', SUBSTRING(p_answers, 2), ']');
END
