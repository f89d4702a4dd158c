CREATE /*M! OR REPLACE */ PROCEDURE recall_attempt(
  IN    p_attempt_id VARCHAR(65) CHARACTER SET ascii,
  IN    p_buckets    JSON,
  IN    p_number     INT,
  INOUT p_checked_at DATETIME(6),
  OUT   p_answer     LONGTEXT CHARACTER SET utf8mb4
)
COMMENT 'internal: called by decide_check for a check with an attempt_id'
SQL SECURITY INVOKER
MODIFIES SQL DATA
BEGIN
  -- Reads the answer to an attempt_id. The check has p_number buckets that differ, and the caller
  -- holds their locks. If the id was used with the same buckets, in any order, p_answer and p_checked_at
  -- become the answer of that time. If nothing is remembered at p_checked_at, p_answer is NULL and a row
  -- that has expired is deleted. Error 45409: the id was used with other buckets.
  DECLARE v_created_at DATETIME(6);
  DECLARE v_same INT;
  SELECT MAX(created_at), MAX(answer)
    INTO v_created_at, p_answer
    FROM zone_attempt
   WHERE attempt_id = p_attempt_id
     AND expires_at > p_checked_at;
  IF p_answer IS NULL THEN
    -- The condition on expires_at stays: another session, with other buckets, may have deleted
    -- the row and made a new one meanwhile.
    DELETE FROM zone_attempt
     WHERE attempt_id = p_attempt_id
       AND expires_at <= p_checked_at;
  ELSE
    SELECT COUNT(DISTINCT v.zone_id, v.bucket_key)
      INTO v_same
      FROM JSON_TABLE(p_answer, '$[*]' COLUMNS (
             zone_id BIGINT PATH '$[0]',
             bucket_key VARCHAR(256) CHARACTER SET utf8mb4 COLLATE /*!80017 utf8mb4_0900_bin */ /*M! utf8mb4_nopad_bin */ PATH '$[1]')) AS v
      JOIN JSON_TABLE(p_buckets, '$[*]' COLUMNS (
             zone_id BIGINT PATH '$.zone_id',
             bucket_key VARCHAR(256) CHARACTER SET utf8mb4 COLLATE /*!80017 utf8mb4_0900_bin */ /*M! utf8mb4_nopad_bin */
               PATH '$.bucket_key')) AS b
        ON b.zone_id = v.zone_id
       AND b.bucket_key = v.bucket_key;
    IF v_same <> p_number OR p_number <> JSON_LENGTH(p_answer) THEN
      SIGNAL SQLSTATE '45000' SET MYSQL_ERRNO = 45409, MESSAGE_TEXT = 'the attempt_id was used with other buckets';
    END IF;
    SET p_checked_at = v_created_at;
  END IF;
END
