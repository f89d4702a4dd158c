CREATE /*M! OR REPLACE */ PROCEDURE retain_task(
  IN p_task     VARCHAR(32) CHARACTER SET ascii,
  IN p_position VARCHAR(512) CHARACTER SET utf8mb4
)
COMMENT 'internal: one batch of a task of retention, for the service'
SQL SECURITY DEFINER
MODIFIES SQL DATA
BEGIN
  -- Called by the runner of the service, whose account may neither delete txns nor change tables. The policy and the
  -- tables alone decide which rows go. Answers with one row:
  --   position, removed, more
  DECLARE v_removed BIGINT;
  DECLARE v_more BOOLEAN;
  CALL retain_step(p_task, p_position, v_removed, v_more);
  SELECT p_position AS position, v_removed AS removed, v_more AS more;
END
