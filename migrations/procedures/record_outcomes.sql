CREATE /*M! OR REPLACE */ PROCEDURE record_outcomes(IN p_reports JSON, OUT p_answers LONGTEXT CHARACTER SET ascii)
COMMENT 'internal: called by report_outcome, report_attempt and report_outcomes'
SQL SECURITY INVOKER
MODIFIES SQL DATA
BEGIN
  -- Records outcomes in one transaction, under the locks of all buckets concerned. p_answers
  -- becomes a JSON array with [status, txn_id, outcome] for each report, in order. report_outcomes
  -- lists the statuses. The txn of an attempt_id is the first of its check.
  DECLARE v_done BOOLEAN DEFAULT FALSE;
  DECLARE v_created_at, v_now DATETIME(6);
  DECLARE v_check_id, v_first_id, v_last_id BIGINT UNSIGNED;
  DECLARE v_txn_id, v_outcome, v_status VARCHAR(32) CHARACTER SET utf8mb4;
  DECLARE v_attempt_id VARCHAR(65) CHARACTER SET utf8mb4;
  DECLARE v_zone_id INT;
  DECLARE v_key VARCHAR(256) CHARACTER SET utf8mb4 COLLATE /*!80017 utf8mb4_0900_bin */ /*M! utf8mb4_nopad_bin */;
  DECLARE v_buckets, v_named LONGTEXT CHARACTER SET utf8mb4 DEFAULT '';
  DECLARE given CURSOR FOR
    SELECT r.txn_id, r.attempt_id, r.outcome
      FROM JSON_TABLE(p_reports, '$[*]' COLUMNS (
             report_no FOR ORDINALITY,
             txn_id VARCHAR(32) CHARACTER SET utf8mb4 PATH '$.txn_id',
             attempt_id VARCHAR(65) CHARACTER SET utf8mb4 PATH '$.attempt_id',
             outcome VARCHAR(32) CHARACTER SET utf8mb4 PATH '$.outcome')) AS r
     ORDER BY r.report_no;
  DECLARE named CURSOR FOR
    SELECT r.txn_id, r.outcome
      FROM JSON_TABLE(v_named, '$[*]' COLUMNS (
             report_no FOR ORDINALITY,
             txn_id VARCHAR(32) CHARACTER SET utf8mb4 PATH '$[0]',
             outcome VARCHAR(32) CHARACTER SET utf8mb4 PATH '$[1]')) AS r
     ORDER BY r.report_no;
  DECLARE siblings CURSOR FOR
    SELECT t.zone_id, t.bucket_key
      FROM zone_txn AS t
     WHERE t.id BETWEEN v_first_id AND v_last_id
       AND t.created_at = v_created_at
       AND t.check_id <=> v_check_id;
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
        SET MYSQL_ERRNO = 45400, MESSAGE_TEXT = 'reports must be a JSON array of objects with txn_id or attempt_id, and outcome';
    END IF;
    /*M! IF @@secure_timestamp = 'NO' THEN */ SET timestamp = DEFAULT; /*M! END IF; */
    -- The bucket and the siblings of a txn never change, so they are looked up before anything is locked. An
    -- attempt_id is looked up once, because it may mean another check later.
    OPEN given;
    the_given: LOOP
      FETCH given INTO v_txn_id, v_attempt_id, v_outcome;
      IF v_done THEN
        LEAVE the_given;
      END IF;
      -- The id is read as text, because engines make a number of 1.6 and of '1abc', and the outcome is
      -- compared as bytes, because 'süccess' is the same text as 'success'.
      IF (v_txn_id IS NULL) = (v_attempt_id IS NULL)
         OR v_txn_id NOT REGEXP '^[0-9]{1,20}\\z'
         OR CAST(v_txn_id AS DECIMAL(20)) > 18446744073709551615
         OR v_attempt_id COLLATE utf8mb4_bin NOT REGEXP '^[ -~]{1,64}\\z'
         OR v_outcome IS NULL OR HEX(v_outcome) NOT IN (HEX('success'), HEX('failure')) THEN
        SIGNAL SQLSTATE '45000' SET MYSQL_ERRNO = 45400,
          MESSAGE_TEXT = 'a report must have a txn_id or an attempt_id, and an outcome that is success or failure';
      END IF;
      IF v_attempt_id IS NOT NULL THEN
        SET v_txn_id = (SELECT JSON_VALUE(a.answer, '$[0][4]')
                          FROM zone_attempt AS a
                         WHERE a.attempt_id = v_attempt_id
                           AND a.expires_at > UTC_TIMESTAMP(6));
      END IF;
      SET v_named = CONCAT(v_named, ',', JSON_ARRAY(v_txn_id, v_outcome));
      CALL txns_of_check(v_txn_id, v_created_at, v_check_id, v_first_id, v_last_id);
      OPEN siblings;
      the_siblings: LOOP
        FETCH siblings INTO v_zone_id, v_key;
        IF v_done THEN
          LEAVE the_siblings;
        END IF;
        SET v_buckets = CONCAT(v_buckets, ',', JSON_OBJECT('zone_id', v_zone_id, 'bucket_key', v_key));
      END LOOP;
      CLOSE siblings;
      SET v_done = FALSE;
    END LOOP;
    CLOSE given;

    CALL lock_buckets(CONCAT('[', SUBSTRING(v_buckets, 2), ']'));
    SET v_now = UTC_TIMESTAMP(6);

    SET v_done = FALSE, p_answers = '', v_named = CONCAT('[', SUBSTRING(v_named, 2), ']');
    OPEN named;
    the_reports: LOOP
      FETCH named INTO v_txn_id, v_outcome;
      IF v_done THEN
        LEAVE the_reports;
      END IF;
      CALL txns_of_check(v_txn_id, v_created_at, v_check_id, v_first_id, v_last_id);
      CALL record_outcome(v_created_at, v_check_id, v_first_id, v_last_id, v_outcome, v_now, v_status);
      SET p_answers = CONCAT(p_answers, ',', JSON_ARRAY(IF(v_txn_id IS NULL, 'unknown_attempt', v_status), v_txn_id, v_outcome));
    END LOOP;
    CLOSE named;
    COMMIT AND NO CHAIN NO RELEASE;
  END;
  SET p_answers = CONCAT('[', SUBSTRING(p_answers, 2), ']');
END
