CREATE /*M! OR REPLACE */ PROCEDURE validate_check(
  IN p_buckets    JSON,
  IN p_attempt_id VARCHAR(65) CHARACTER SET utf8mb4
)
COMMENT 'internal: called by decide_check'
SQL SECURITY INVOKER
READS SQL DATA
BEGIN
  -- Refuses a check whose arguments are malformed, with error 45400. It does not look at zones and keys.
  IF COALESCE(JSON_TYPE(p_buckets), '') <> 'ARRAY' OR JSON_LENGTH(p_buckets) NOT BETWEEN 1 AND 255 THEN
    SIGNAL SQLSTATE '45000' SET MYSQL_ERRNO = 45400,
      MESSAGE_TEXT = 'buckets must be a JSON array of 1 to 255 objects with zone_id and bucket_key';
  END IF;
  IF p_attempt_id COLLATE utf8mb4_bin NOT REGEXP '^[ -~]{1,64}\\z' THEN
    SIGNAL SQLSTATE '45000' SET MYSQL_ERRNO = 45400, MESSAGE_TEXT = 'attempt_id must be 1 to 64 printable ASCII characters';
  END IF;
END
