-- How many logins ended: CALL report_outcomes('[{"txn_id":981,"outcome":"success"}]')
-- takes them in order and answers with a row for each, positions from 0:
--   report_no, status
-- recorded (now, or before with the same outcome), unknown_txn, blocked (there was
-- no login), conflict (the other outcome is recorded) or expired (a success after
-- the reserve_ttl of a zone where failures count: it is a failure by now). Each
-- speaks for the whole check that its txn belongs to. Error 45400 for what is no
-- report: nothing is recorded. Call it outside of a transaction.
CREATE PROCEDURE report_outcomes(IN p_reports JSON)
SQL SECURITY DEFINER
MODIFIES SQL DATA
BEGIN
  DECLARE v_answers LONGTEXT CHARACTER SET ascii;
  CALL record_outcomes(p_reports, v_answers);
  SELECT a.report_no - 1 AS report_no, a.status
    FROM JSON_TABLE(v_answers, '$[*]' COLUMNS (
           report_no FOR ORDINALITY,
           status VARCHAR(16) CHARACTER SET ascii PATH '$')) AS a
   ORDER BY a.report_no;
END
