CREATE /*M! OR REPLACE */ PROCEDURE refuse_report(
  IN p_status VARCHAR(16) CHARACTER SET ascii,
  IN p_check  VARCHAR(64) CHARACTER SET utf8mb4
)
COMMENT 'internal: called by report_outcome and report_attempt'
SQL SECURITY INVOKER
NO SQL
BEGIN
  -- Makes an error of the status of a report, as record_outcomes has it, unless the report is
  -- recorded. p_check names the check in its text.
  DECLARE v_message VARCHAR(128) CHARACTER SET utf8mb4;
  IF p_status IN ('unknown_txn', 'unknown_attempt') THEN
    SET v_message = IF(p_status = 'unknown_txn', CONCAT(p_check, ' does not exist'), 'no answer is remembered under this attempt_id');
    SIGNAL SQLSTATE '45000' SET MYSQL_ERRNO = 45404, MESSAGE_TEXT = v_message;
  ELSEIF p_status <> 'recorded' THEN
    SET v_message = CONCAT(p_check, CASE p_status
      WHEN 'blocked' THEN ' was blocked: there was no login'
      WHEN 'expired' THEN ' counts as a failure since its reserve_ttl'
      ELSE ' has the other outcome' END);
    SIGNAL SQLSTATE '45000' SET MYSQL_ERRNO = 45409, MESSAGE_TEXT = v_message;
  END IF;
END
