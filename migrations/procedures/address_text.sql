CREATE /*M! OR REPLACE */ FUNCTION address_text(p_address VARBINARY(16))
RETURNS VARCHAR(39) CHARACTER SET ascii
COMMENT 'internal: an IP address as the service writes it'
DETERMINISTIC
SQL SECURITY INVOKER
NO SQL
BEGIN
  -- Called by derive_network and derive_target. Writes an address in the form of INET6_ATON as
  -- the service does: in lower case and in the shortest form (RFC 5952). NULL for NULL.
  -- INET6_NTOA differs from that in two cases: it makes ::1.2.3.4 of ::102:304, and it
  -- shortens a single group of zeros, which stays 0 in the form of the RFC.
  DECLARE v_hex CHAR(32) CHARACTER SET ascii DEFAULT HEX(p_address);
  DECLARE v_text VARCHAR(39) CHARACTER SET ascii DEFAULT INET6_NTOA(p_address);
  DECLARE v_colons INT DEFAULT LENGTH(v_text) - LENGTH(REPLACE(v_text, ':', ''));
  IF v_hex LIKE '000000000000000000000000________' AND v_hex NOT LIKE '0000000000000000000000000000____' THEN
    RETURN CONCAT('::', LOWER(CONV(SUBSTRING(v_hex, 25, 4), 16, 16)), ':', LOWER(CONV(SUBSTRING(v_hex, 29), 16, 16)));
  END IF;
  -- Seven groups are written beside the two colons, so the colons stand for one.
  RETURN CASE
    WHEN v_colons = 8 AND v_text LIKE '::%' THEN CONCAT('0', SUBSTRING(v_text, 2))
    WHEN v_colons = 8 THEN CONCAT(LEFT(v_text, LENGTH(v_text) - 1), '0')
    WHEN v_colons = 7 AND v_text LIKE '_%::%_' THEN REPLACE(v_text, '::', ':0:')
    ELSE v_text
  END;
END
