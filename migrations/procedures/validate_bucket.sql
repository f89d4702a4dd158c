CREATE /*M! OR REPLACE */ PROCEDURE validate_bucket(
  IN p_zone_id      INT,
  IN p_bucket_key   VARCHAR(256) CHARACTER SET utf8mb4 COLLATE /*!80017 utf8mb4_0900_bin */ /*M! utf8mb4_nopad_bin */,
  IN p_key_rule     VARCHAR(32) CHARACTER SET ascii,
  IN p_callers_rule VARCHAR(32) CHARACTER SET ascii
)
COMMENT 'internal: refuses a key that the zone can not have'
SQL SECURITY INVOKER
NO SQL
BEGIN
  -- Called before a key is written anywhere. p_key_rule is the zone's, NULL if there is no such
  -- zone. p_callers_rule is the caller's rule for the key, NULL if the caller does not
  -- say. Does nothing if all fits. Errors:
  --   45400  the key is empty or too long, or the zone keeps pseudonyms and the key is not one; the
  --          message does not repeat the key, since it may be clear
  --   45404  there is no such zone
  --   45410  the zone has another key_rule than the caller's
  -- service.IsPseudonym is the rule of pseudonyms in Go.
  DECLARE v_message VARCHAR(128) DEFAULT CONCAT('zone ', COALESCE(p_zone_id, 'NULL'), ' does not exist');
  IF p_bucket_key IS NULL OR CHAR_LENGTH(p_bucket_key) NOT BETWEEN 1 AND 255 THEN
    SIGNAL SQLSTATE '45000' SET MYSQL_ERRNO = 45400, MESSAGE_TEXT = 'bucket_key must be 1 to 255 characters';
  END IF;
  IF p_key_rule IS NULL THEN
    SIGNAL SQLSTATE '45000' SET MYSQL_ERRNO = 45404, MESSAGE_TEXT = v_message;
  END IF;
  IF p_callers_rule <> p_key_rule THEN
    SIGNAL SQLSTATE '45000' SET MYSQL_ERRNO = 45410, MESSAGE_TEXT = 'the zone has another key_rule now';
  END IF;
  IF p_key_rule LIKE 'hmac/%'
     AND (p_bucket_key NOT REGEXP '^hmac:[a-z0-9-]{1,16}:[A-Za-z0-9_-]{43}$' OR p_bucket_key REGEXP '[[:cntrl:]]') THEN
    SIGNAL SQLSTATE '45000' SET MYSQL_ERRNO = 45400,
      MESSAGE_TEXT = 'the key_form of this zone is hmac: bucket_key must be a pseudonym, which the service makes from a clear key';
  END IF;
END
