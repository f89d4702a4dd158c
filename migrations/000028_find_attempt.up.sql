-- What was answered to an attempt_id, if it is remembered at p_now: a row of
-- zone_attempt. The caller compares the buckets, and holds their locks. Error
-- 45400 for an attempt_id that is none.
CREATE PROCEDURE find_attempt(
  IN  p_attempt_id VARCHAR(256) CHARACTER SET utf8mb4,
  IN  p_now        DATETIME(6),
  OUT p_remembered BOOLEAN,
  OUT p_answer     LONGTEXT CHARACTER SET utf8mb4,
  OUT p_answered   DATETIME(6)
)
-- With the rights of the procedure that calls it: by itself it is of no use to an
-- account that may only EXECUTE.
SQL SECURITY INVOKER
MODIFIES SQL DATA
BEGIN
  DECLARE v_expires_at DATETIME(6) DEFAULT NULL;
  -- No row is an answer here, and no business of a caller's own handlers.
  DECLARE CONTINUE HANDLER FOR NOT FOUND BEGIN END;
  SET p_remembered = FALSE, p_answer = NULL, p_answered = NULL;

  IF p_attempt_id COLLATE utf8mb4_bin NOT REGEXP '^[ -~]{1,64}\\z' THEN
    SIGNAL SQLSTATE '45000'
      SET MYSQL_ERRNO = 45400, MESSAGE_TEXT = 'attempt_id must be 1 to 64 printable ASCII characters';
  END IF;
  SELECT expires_at, created_at, answer
    INTO v_expires_at, p_answered, p_answer
    FROM zone_attempt
   WHERE attempt_id = p_attempt_id;
  IF v_expires_at <= p_now THEN
    -- Another session, for other buckets, may have taken it over meanwhile.
    DELETE FROM zone_attempt
     WHERE attempt_id = p_attempt_id
       AND expires_at <= p_now;
  ELSEIF v_expires_at IS NOT NULL THEN
    SET p_remembered = TRUE;
  END IF;
END
