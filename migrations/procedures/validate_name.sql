CREATE /*M! OR REPLACE */ PROCEDURE validate_name(
  IN p_written     VARCHAR(32) CHARACTER SET utf8mb4,
  IN p_secret_hash VARCHAR(65) CHARACTER SET utf8mb4
)
COMMENT 'internal: called by decide_check'
SQL SECURITY INVOKER
READS SQL DATA
BEGIN
  -- Refuses a zone_id as it is written in JSON, or a secret_hash that counts, which is malformed, with error 45400.
  IF p_written IS NULL OR p_written NOT REGEXP '^-?[0-9]+\\z' THEN -- an engine makes a number of 1.6 and of '1abc'
    SIGNAL SQLSTATE '45000' SET MYSQL_ERRNO = 45400, MESSAGE_TEXT = 'zone_id must be a whole number';
  END IF;
  IF p_secret_hash NOT REGEXP '^[A-Za-z0-9_-]{8,64}\\z' THEN
    SIGNAL SQLSTATE '45000' SET MYSQL_ERRNO = 45400, MESSAGE_TEXT = 'secret_hash must be 8 to 64 characters of A-Z, a-z, 0-9, - and _';
  END IF;
END
