CREATE /*M! OR REPLACE */ PROCEDURE recall_attempt(
  IN  p_attempt_id VARCHAR(65) CHARACTER SET ascii,
  IN  p_buckets    JSON,
  IN  p_number     INT,
  IN  p_now        DATETIME(6),
  OUT p_status     VARCHAR(8) CHARACTER SET ascii,
  OUT p_checked_at DATETIME(6),
  OUT p_verdicts   LONGTEXT CHARACTER SET utf8mb4
)
COMMENT 'internal: called by decide_check for a check with an attempt_id'
SQL SECURITY INVOKER
MODIFIES SQL DATA
BEGIN
  -- Reads the answer to an attempt_id. The check has p_number buckets that differ, and the caller
  -- holds their locks. p_status is:
  --   decided   the id was used with the same buckets in any order: p_verdicts and p_checked_at
  --             are the answer of that time
  --   conflict  it was used with other buckets
  --   NULL      there is no answer at p_now; a row that has expired is deleted
  DECLARE v_expires_at DATETIME(6);
  SELECT MAX(created_at), MAX(expires_at), MAX(answer)
    INTO p_checked_at, v_expires_at, p_verdicts
    FROM zone_attempt
   WHERE attempt_id = p_attempt_id;
  IF v_expires_at > p_now THEN
    SELECT IF(COUNT(DISTINCT v.zone_id, v.bucket_key) = p_number AND p_number = JSON_LENGTH(p_verdicts), 'decided', 'conflict')
      INTO p_status
      FROM JSON_TABLE(p_verdicts, '$[*]' COLUMNS (
             zone_id BIGINT PATH '$[0]',
             bucket_key VARCHAR(256) CHARACTER SET utf8mb4 COLLATE /*!80017 utf8mb4_0900_bin */ /*M! utf8mb4_nopad_bin */ PATH '$[1]')) AS v
      JOIN JSON_TABLE(p_buckets, '$[*]' COLUMNS (
             zone_id BIGINT PATH '$.zone_id',
             bucket_key VARCHAR(256) CHARACTER SET utf8mb4 COLLATE /*!80017 utf8mb4_0900_bin */ /*M! utf8mb4_nopad_bin */
               PATH '$.bucket_key')) AS b
        ON b.zone_id = v.zone_id
       AND b.bucket_key = v.bucket_key;
  ELSE
    -- The condition on expires_at stays: another session, with other buckets, may have deleted
    -- the row and made a new one meanwhile.
    DELETE FROM zone_attempt
     WHERE attempt_id = p_attempt_id
       AND expires_at <= p_now;
  END IF;
END
