CREATE /*M! OR REPLACE */ PROCEDURE report_outcome(
  IN p_txn_id  BIGINT UNSIGNED,
  IN p_outcome VARCHAR(16) CHARACTER SET utf8mb4
)
COMMENT 'public: how one login ended'
SQL SECURITY DEFINER
MODIFIES SQL DATA
BEGIN
  -- Records how a login ended:
  --   CALL report_outcome(981, 'success')
  -- The arguments are the id of any txn of the check, and 'success' or 'failure'. The outcome is
  -- recorded for all txns of that check. Answers with one row:
  --   txn_id, outcome
  -- To report the same outcome again changes nothing. Call it outside of a transaction. Errors,
  -- which record nothing:
  --   1568   it was called inside a transaction
  --   45400  another word for the outcome
  --   45404  the txn does not exist
  --   45409  the txn was blocked, has the other outcome, or its reservation ran out before
  --          this success
  DECLARE v_answers LONGTEXT CHARACTER SET ascii;
  DECLARE v_status VARCHAR(16) CHARACTER SET ascii;
  DECLARE v_message VARCHAR(128);
  CALL record_outcomes(JSON_ARRAY(JSON_OBJECT('txn_id', p_txn_id, 'outcome', p_outcome)), v_answers);
  SET v_status = JSON_VALUE(v_answers, '$[0][0]');
  IF v_status = 'unknown_txn' THEN
    SET v_message = CONCAT('txn ', p_txn_id, ' does not exist');
    SIGNAL SQLSTATE '45000' SET MYSQL_ERRNO = 45404, MESSAGE_TEXT = v_message;
  ELSEIF v_status <> 'recorded' THEN
    SET v_message = CONCAT('txn ', p_txn_id, CASE v_status
      WHEN 'blocked' THEN ' was blocked: there was no login'
      WHEN 'expired' THEN ' counts as a failure since its reserve_ttl'
      ELSE ' has the other outcome' END);
    SIGNAL SQLSTATE '45000' SET MYSQL_ERRNO = 45409, MESSAGE_TEXT = v_message;
  END IF;
  SELECT p_txn_id AS txn_id,
         p_outcome AS outcome;
END
