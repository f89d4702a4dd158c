CREATE /*M! OR REPLACE */ FUNCTION address_bits(p_address VARBINARY(16))
RETURNS VARCHAR(128) CHARACTER SET ascii
COMMENT 'internal: an IP address as text of 32 or 128 binary digits'
DETERMINISTIC
SQL SECURITY INVOKER
NO SQL
BEGIN
  -- Called by derive_network, derive_target and find_override. Returns the bits of an address
  -- in the form of INET6_ATON: 32 digits for IPv4, 128 for IPv6, NULL for NULL. The bits are
  -- text because MariaDB's bit operators work on 64 bits at most.
  RETURN CONCAT(
    LPAD(CONV(LEFT(HEX(p_address), 16), 16, 2), LEAST(64, 8 * LENGTH(p_address)), '0'),
    IF(LENGTH(p_address) = 16, LPAD(CONV(RIGHT(HEX(p_address), 16), 16, 2), 64, '0'), ''));
END
