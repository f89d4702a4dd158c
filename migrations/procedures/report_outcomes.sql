CREATE /*M! OR REPLACE */ PROCEDURE report_outcomes(IN p_reports JSON)
COMMENT 'public: how many logins ended, a row of status for each'
SQL SECURITY DEFINER
MODIFIES SQL DATA
BEGIN
  -- Records how many logins ended: CALL report_outcomes('[{"txn_id":981,"outcome":"success"}]').
  -- It takes the reports in order and answers with a row for each, positions from 0:
  --   report_no, status
  -- A status speaks for the whole check that the txn belongs to:
  --   recorded     now, or before with the same outcome
  --   unknown_txn  there is no such txn
  --   blocked      the attempt was blocked, so there was no login
  --   conflict     the other outcome is recorded
  --   expired      a success that comes after the reserve_ttl of a zone where failures
  --                count: the attempt is a failure by now
  -- Error 45400 for what is no report: then nothing is recorded. Call it outside of a
  -- transaction. It sets the session's timestamp to its default, and max_sort_length.
  DECLARE v_answers LONGTEXT CHARACTER SET ascii;
  CALL record_outcomes(p_reports, v_answers);
  SELECT a.report_no - 1 AS report_no, a.status
    FROM JSON_TABLE(v_answers, '$[*]' COLUMNS (
           report_no FOR ORDINALITY,
           status VARCHAR(16) CHARACTER SET ascii PATH '$')) AS a
   ORDER BY a.report_no;
END
