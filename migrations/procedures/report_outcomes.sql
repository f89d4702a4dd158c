CREATE /*M! OR REPLACE */ PROCEDURE report_outcomes(IN p_reports JSON)
COMMENT 'public: how logins ended, many in one CALL'
SQL SECURITY DEFINER
MODIFIES SQL DATA
BEGIN
  -- Records how many logins ended:
  --   CALL report_outcomes('[{"txn_id":981,"outcome":"success"},{"txn_id":982,"outcome":"failure"}]')
  -- It takes the reports in order and answers with a row for each, counted from 0:
  --   report_no, status, txn_id, outcome
  -- A status speaks for the whole check that the txn belongs to:
  --   recorded     now, or before with the same outcome
  --   unknown_txn  there is no such txn
  --   blocked      the attempt was blocked, so there was no login
  --   conflict     the other outcome is recorded
  --   expired      a success that comes after the reserve_ttl of a zone where failures
  --                count: the attempt is a failure by now
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
