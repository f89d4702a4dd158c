CREATE /*M! OR REPLACE */ PROCEDURE check_velocity_batch(IN p_checks JSON)
COMMENT 'public: many checks, each of one or several buckets, in one CALL'
SQL SECURITY DEFINER
MODIFIES SQL DATA
BEGIN
  -- Decides many checks in one CALL and one commit, in array order. Each names its buckets and,
  -- if a retry is to be counted once, an attempt_id of 1 to 64 printable ASCII characters:
  --   CALL check_velocity_batch('[{"buckets":[{"zone_id":1,"bucket_key":"alice"},
  --                                          {"zone_id":2,"bucket_key":"203.0.113.9"}]},
  --                               {"buckets":[{"zone_id":1,"bucket_key":"bob"}],
  --                                "attempt_id":"3f6c"}]')
  -- A check is blocked if any of its buckets blocks, and then none of them is charged. A bucket
  -- that it names twice is counted once, and both rows have the same txn_id. The
  -- answer has one row for each bucket of each check, positions counted from 0:
  --   check_no, bucket_no, status, blocked (by this bucket), would_block, txn_id, rate,
  --   window, velocity, remaining, retry_after, checked_at, reason (as that of check_velocity, or
  --   elsewhere: this bucket had room, and another one of the check blocked it), override_id
  -- A status that is not decided speaks for the whole check, which records nothing:
  --   decided       now, or when the attempt_id was first seen
  --   unknown_zone  this bucket's zone does not exist
  --   refused       another bucket's zone does not exist
  --   conflict      the attempt_id was used with other buckets
  -- It has a transaction of its own: call it outside of one. Errors:
  --   1568   it was called inside a transaction
  --   45400  the argument is malformed, or a key is no pseudonym in a zone whose key_form is hmac;
  --          for text that is no JSON, and keys with control characters, the engine's own errors
  --   45404  a zone was deleted during the call: call again
  --   45410  a bucket has a member key_rule, and its zone has another key_rule
  --   1062   another session has just used an attempt_id for other buckets: call again
  --   45504  the checks ARE recorded, but the engine could not send the answer
  -- All but the last record nothing. It sets the variables of the session that check_velocity
  -- sets, and max_sort_length.
  DECLARE v_done BOOLEAN DEFAULT FALSE;
  DECLARE v_check_no INT;
  DECLARE v_attempt_id VARCHAR(65) CHARACTER SET ascii;
  DECLARE v_now, v_checked_at DATETIME(6);
  DECLARE v_status VARCHAR(8) CHARACTER SET ascii;
  DECLARE v_zones LONGTEXT CHARACTER SET ascii;
  DECLARE v_buckets JSON;
  DECLARE v_verdicts LONGTEXT CHARACTER SET utf8mb4;
  DECLARE v_answers LONGTEXT CHARACTER SET utf8mb4 DEFAULT '';

  DECLARE asked CURSOR FOR
    SELECT c.check_no, c.attempt_id, c.buckets
      FROM JSON_TABLE(p_checks, '$[*]' COLUMNS (
             check_no FOR ORDINALITY,
             attempt_id VARCHAR(65) CHARACTER SET utf8mb4 PATH '$.attempt_id',
             buckets JSON PATH '$.buckets')) AS c
     ORDER BY c.check_no;
  DECLARE CONTINUE HANDLER FOR NOT FOUND SET v_done = TRUE;

  IF @@insert_id <> 0 OR LAST_INSERT_ID(0) <> 0 THEN
    SIGNAL SQLSTATE '45000' SET MYSQL_ERRNO = 45400, MESSAGE_TEXT = 'insert_id must not be set in the session';
  END IF;
  SET SESSION max_sort_length = 1024; -- with a shorter one, long keys would be locked in another order than by other sessions
  SET TRANSACTION ISOLATION LEVEL READ COMMITTED;
  START TRANSACTION READ WRITE;
  BEGIN
    DECLARE EXIT HANDLER FOR SQLEXCEPTION
    BEGIN
      ROLLBACK AND NO CHAIN NO RELEASE;
      RESIGNAL;
    END;
    CALL lock_checks(p_checks, v_zones);
    -- The clock is read once, after the last wait for a lock, and in a statement of its own:
    -- a statement that waited keeps the time at which it began.
    /*M! IF @@secure_timestamp = 'NO' THEN */ SET timestamp = DEFAULT; /*M! END IF; */
    SET v_now = UTC_TIMESTAMP(6);

    OPEN asked;
    the_checks: LOOP
      FETCH asked INTO v_check_no, v_attempt_id, v_buckets;
      IF v_done THEN
        LEAVE the_checks;
      END IF;
      CALL decide_check(v_buckets, v_attempt_id, v_zones, v_now, v_status, v_checked_at, v_verdicts);
      SET v_answers = CONCAT(v_answers, ',', JSON_ARRAY(v_check_no - 1, v_status, v_checked_at,
        JSON_EXTRACT(v_buckets, '$'), JSON_EXTRACT(v_verdicts, '$')));
    END LOOP;
    CLOSE asked;
    COMMIT AND NO CHAIN NO RELEASE;
  END;

  BEGIN
    DECLARE EXIT HANDLER FOR SQLEXCEPTION
      RESIGNAL SET MYSQL_ERRNO = 45504; -- the checks are recorded; only the answer is lost
    SELECT a.check_no,
           b.bucket_no - 1 AS bucket_no,
           IF(a.status = 'refused' AND NOT COALESCE(FIND_IN_SET(b.zone_id, v_zones), 0), 'unknown_zone', a.status) AS status,
           v.blocked, v.would_block, v.txn_id, v.rate, v.`window`, v.velocity, v.remaining, v.retry_after,
           a.checked_at, NULLIF(v.reason, '') AS reason, NULLIF(v.override_id, 0) AS override_id
      FROM JSON_TABLE(CONCAT('[', SUBSTRING(v_answers, 2), ']'), '$[*]' COLUMNS (
             check_no INT PATH '$[0]',
             status VARCHAR(8) PATH '$[1]',
             checked_at DATETIME(6) PATH '$[2]',
             buckets JSON PATH '$[3]',
             verdicts JSON PATH '$[4]')) AS a
      JOIN JSON_TABLE(a.buckets, '$[*]' COLUMNS (
             bucket_no FOR ORDINALITY,
             zone_id BIGINT PATH '$.zone_id',
             bucket_key VARCHAR(256) CHARACTER SET utf8mb4 COLLATE /*!80017 utf8mb4_0900_bin */ /*M! utf8mb4_nopad_bin */ PATH '$.bucket_key')) AS b
      LEFT JOIN JSON_TABLE(a.verdicts, '$[*]' COLUMNS (
             zone_id BIGINT PATH '$[0]',
             bucket_key VARCHAR(256) CHARACTER SET utf8mb4 COLLATE /*!80017 utf8mb4_0900_bin */ /*M! utf8mb4_nopad_bin */ PATH '$[1]',
             blocked BOOLEAN PATH '$[2]', would_block BOOLEAN PATH '$[3]', txn_id BIGINT UNSIGNED PATH '$[4]',
             rate INT PATH '$[5]', `window` INT PATH '$[6]', velocity INT PATH '$[7]', remaining INT PATH '$[8]',
             retry_after BIGINT PATH '$[9]',
             reason VARCHAR(9) CHARACTER SET ascii PATH '$[10]', override_id BIGINT UNSIGNED PATH '$[11]')) AS v
        ON a.status = 'decided'
       AND v.zone_id = b.zone_id
       AND v.bucket_key = b.bucket_key
     ORDER BY a.check_no, b.bucket_no;
  END;
END
