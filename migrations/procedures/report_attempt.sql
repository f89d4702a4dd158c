CREATE /*M! OR REPLACE */ PROCEDURE report_attempt(
  IN p_attempt_id VARCHAR(65) CHARACTER SET utf8mb4,
  IN p_outcome    VARCHAR(16) CHARACTER SET utf8mb4
)
COMMENT 'public: how the login of one attempt ended'
SQL SECURITY DEFINER
MODIFIES SQL DATA
BEGIN
  -- Records how a login ended, as report_outcome does, by the attempt_id of its check:
  --   CALL report_attempt('6f1d0c52-93e4-4d7a-b1f0-2c9c8b1e5a47', 'success')
  -- The arguments are the attempt_id, for as long as it is remembered, and 'success' or 'failure'.
  -- The outcome is recorded for all txns of the check. Answers with one row:
  --   attempt_id, outcome, txn_id
  -- txn_id is the first txn of the check. To report the same outcome again changes nothing. Call
  -- it outside of a transaction. It sets timestamp and max_sort_length of the session to their
  -- defaults. Errors, which record nothing:
  --   1568   it was called inside a transaction
  --   45400  another word for the outcome, or an attempt_id that is not 1 to 64 printable
  --          ASCII characters
  --   45404  no answer is remembered under the attempt_id
  --   45409  the attempt was blocked, has the other outcome, or its reservation ran out before
  --          this success
  DECLARE v_answers LONGTEXT CHARACTER SET ascii;
  CALL record_outcomes(JSON_ARRAY(JSON_OBJECT('attempt_id', p_attempt_id, 'outcome', p_outcome)), v_answers);
  CALL refuse_report(JSON_VALUE(v_answers, '$[0][0]'), 'the attempt');
  SELECT p_attempt_id AS attempt_id,
         p_outcome AS outcome,
         CAST(JSON_VALUE(v_answers, '$[0][1]') AS UNSIGNED) AS txn_id;
END
