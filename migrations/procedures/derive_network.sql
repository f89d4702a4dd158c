CREATE /*M! OR REPLACE */ PROCEDURE derive_network(
  INOUT p_prefix  VARCHAR(43) CHARACTER SET ascii,
  OUT   p_network VARCHAR(130) CHARACTER SET ascii COLLATE ascii_bin
)
COMMENT 'internal: called by the triggers of zone_override'
SQL SECURITY INVOKER
NO SQL
BEGIN
  -- Brings the prefix of an override into canonical form ('203.0.113.0/24') and
  -- derives the network from it ('4:' and its 24 bits). Both are NULL for NULL.
  -- Error 45400 for what is no IPv4 or IPv6 network.
  DECLARE v_address VARBINARY(16) DEFAULT NULL;
  DECLARE v_bits    VARCHAR(128) CHARACTER SET ascii;
  DECLARE v_length  INT;
  SET p_network = NULL;
  IF p_prefix IS NOT NULL THEN
    IF p_prefix REGEXP '^[0-9A-Fa-f.:]+/(0|[1-9][0-9]{0,2})$' THEN
      SET v_address = INET6_ATON(SUBSTRING_INDEX(p_prefix, '/', 1));
      SET v_length = SUBSTRING_INDEX(p_prefix, '/', -1);
    END IF;
    IF v_address IS NULL OR v_length > 8 * LENGTH(v_address) OR HEX(v_address) REGEXP '^0{20}FFFF.{8}$' THEN
      SIGNAL SQLSTATE '45000' SET MYSQL_ERRNO = 45400,
        MESSAGE_TEXT = 'prefix must be an IPv4 or IPv6 network such as 203.0.113.0/24';
    END IF;
    SET v_bits = address_bits(v_address);
    IF LOCATE('1', v_bits, v_length + 1) > 0 THEN
      SIGNAL SQLSTATE '45000' SET MYSQL_ERRNO = 45400,
        MESSAGE_TEXT = 'prefix must have no bits set beyond its length, such as 203.0.113.0/24';
    END IF;
    SET p_prefix = CONCAT(INET6_NTOA(v_address), '/', v_length);
    SET p_network = CONCAT(IF(LENGTH(v_address) = 4, '4:', '6:'), LEFT(v_bits, v_length));
  END IF;
END
