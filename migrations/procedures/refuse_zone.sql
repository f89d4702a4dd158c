CREATE /*M! OR REPLACE */ PROCEDURE refuse_zone(IN p_zone_id INT, IN p_key_rule VARCHAR(16) CHARACTER SET ascii)
COMMENT 'internal: the error of an unknown zone or another key_rule'
SQL SECURITY INVOKER
NO SQL
BEGIN
  -- Called by whoever needs a zone that does not exist, or that has another key_rule than the
  -- caller expects. p_key_rule is the zone's: error 45410. If it is NULL, there is no such zone:
  -- error 45404.
  DECLARE v_message VARCHAR(128) DEFAULT CONCAT('zone ', COALESCE(p_zone_id, 'NULL'), ' does not exist');
  IF p_key_rule IS NOT NULL THEN
    SIGNAL SQLSTATE '45000' SET MYSQL_ERRNO = 45410, MESSAGE_TEXT = 'the zone has another key_rule now';
  END IF;
  SIGNAL SQLSTATE '45000' SET MYSQL_ERRNO = 45404, MESSAGE_TEXT = v_message;
END
