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
  -- recorded for all txns of that check. report_attempt takes an attempt_id. Answers with one row:
  --   txn_id, outcome
  -- To report the same outcome again changes nothing. Call it outside of a transaction. Errors,
  -- which record nothing:
  --   1568   it was called inside a transaction
  --   45400  another word for the outcome
  --   45404  the txn does not exist
  --   45409  the txn was blocked, has the other outcome, or its reservation ran out before
  --          this success
  DECLARE v_answers LONGTEXT CHARACTER SET ascii;
  CALL record_outcomes(JSON_ARRAY(JSON_OBJECT('txn_id', p_txn_id, 'outcome', p_outcome)), v_answers);
  CALL refuse_report(JSON_VALUE(v_answers, '$[0][0]'), CONCAT('txn ', p_txn_id));
  SELECT p_txn_id AS txn_id,
         p_outcome AS outcome;
END
