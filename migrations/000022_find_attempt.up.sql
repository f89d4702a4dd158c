-- What was answered to an attempt_id, if it is remembered at p_now. p_status is
-- NULL for a new one, 'decided' if it was used for the buckets of check p_place
-- (from 0) of p_checks, in any order, and 'conflict' if for others. The caller
-- holds the locks of the check's buckets. Error 45400 for an attempt_id that is
-- none.
CREATE PROCEDURE find_attempt(
  IN  p_checks     JSON,
  IN  p_place      INT,
  IN  p_attempt_id VARCHAR(256) CHARACTER SET utf8mb4,
  IN  p_now        DATETIME(6),
  OUT p_status     VARCHAR(16) CHARACTER SET ascii,
  OUT p_answer     LONGTEXT CHARACTER SET utf8mb4,
  OUT p_answered   DATETIME(6)
)
SQL SECURITY DEFINER
MODIFIES SQL DATA
BEGIN
  DECLARE v_expires_at DATETIME(6) DEFAULT NULL;
  DECLARE v_asked      INT;
  DECLARE v_then       INT;
  DECLARE v_both       INT;
  -- No row is an answer here, and no business of a caller's own handlers.
  DECLARE CONTINUE HANDLER FOR NOT FOUND BEGIN END;
  SET p_status = NULL, p_answer = NULL, p_answered = NULL;

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
    SET v_asked = JSON_LENGTH(p_checks, CONCAT('$[', p_place, '].buckets'));
    SET v_then = JSON_LENGTH(p_answer);
    SELECT COUNT(*)
      INTO v_both
      FROM JSON_TABLE(JSON_EXTRACT(p_checks, CONCAT('$[', p_place, '].buckets')), '$[*]' COLUMNS (
             zone_id    BIGINT PATH '$.zone_id',
             bucket_key VARCHAR(256) CHARACTER SET utf8mb4 COLLATE /*!80017 utf8mb4_0900_bin */ /*M! utf8mb4_nopad_bin */ PATH '$.bucket_key')) AS b
      JOIN JSON_TABLE(p_answer, '$[*]' COLUMNS (
             zone_id    BIGINT PATH '$[0]',
             bucket_key VARCHAR(256) CHARACTER SET utf8mb4 COLLATE /*!80017 utf8mb4_0900_bin */ /*M! utf8mb4_nopad_bin */ PATH '$[1]')) AS f
        ON f.zone_id = b.zone_id
       AND f.bucket_key = b.bucket_key;
    SET p_status = IF(v_both = v_asked AND v_both = v_then, 'decided', 'conflict');
  END IF;
END
