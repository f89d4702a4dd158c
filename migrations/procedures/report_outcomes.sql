CREATE /*M! OR REPLACE */ PROCEDURE report_outcomes(IN p_reports JSON)
COMMENT 'public: how logins ended, many in one CALL'
SQL SECURITY DEFINER
MODIFIES SQL DATA
BEGIN
  -- Records how many logins ended:
  --   CALL report_outcomes('[{"txn_id":981,"outcome":"success"},{"txn_id":982,"outcome":"failure"}]')
  -- Each has the txn_id of any txn of its check, or the attempt_id of the check in its place:
  --   CALL report_outcomes('[{"attempt_id":"6f1d0c52-93e4-4d7a-b1f0-2c9c8b1e5a47","outcome":"success"}]')
  -- It takes the reports in order and answers with a row for each, counted from 0:
  --   report_no, status, txn_id, outcome
  -- For an attempt_id, txn_id is the first txn of the check, or NULL. A status speaks for the
  -- whole check:
  --   recorded         now, or before with the same outcome
  --   unknown_txn      there is no such txn
  --   unknown_attempt  no answer is remembered under the attempt_id
  --   blocked          the attempt was blocked, so there was no login
  --   conflict         the other outcome is recorded
  --   expired          a success that comes after the reserve_ttl of a zone where failures
  --                    count: the attempt is a failure by now
  -- Call it outside of a transaction. Errors, which record nothing:
  --   1568   it was called inside a transaction
  --   45400  an element of the array is no report
  -- It sets timestamp and max_sort_length of the session to their defaults.
  DECLARE v_answers LONGTEXT CHARACTER SET ascii;
  CALL record_outcomes(p_reports, v_answers);
  SELECT a.report_no - 1 AS report_no, a.status, a.txn_id, a.outcome
    FROM JSON_TABLE(v_answers, '$[*]' COLUMNS (
           report_no FOR ORDINALITY,
           status VARCHAR(16) CHARACTER SET ascii PATH '$[0]',
           txn_id BIGINT UNSIGNED PATH '$[1]',
           outcome VARCHAR(16) CHARACTER SET ascii PATH '$[2]')) AS a
   ORDER BY a.report_no;
END
