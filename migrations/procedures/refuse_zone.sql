CREATE /*M! OR REPLACE */ PROCEDURE refuse_zone(IN p_zone_id INT, IN p_key_rule VARCHAR(16) CHARACTER SET ascii)
COMMENT 'internal: the error of a check that has no such zone'
SQL SECURITY INVOKER
NO SQL
BEGIN
  -- Error 45410 for a zone that has p_key_rule, another one than the caller's; 45404 for none.
  DECLARE v_message VARCHAR(128) DEFAULT CONCAT('zone ', COALESCE(p_zone_id, 'NULL'), ' does not exist');
  IF p_key_rule IS NOT NULL THEN
    SIGNAL SQLSTATE '45000' SET MYSQL_ERRNO = 45410, MESSAGE_TEXT = 'the zone has another key_rule by now';
  END IF;
  SIGNAL SQLSTATE '45000' SET MYSQL_ERRNO = 45404, MESSAGE_TEXT = v_message;
END
