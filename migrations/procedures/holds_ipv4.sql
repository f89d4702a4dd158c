CREATE /*M! OR REPLACE */ FUNCTION holds_ipv4(p_address VARBINARY(16), p_length INT)
RETURNS BOOLEAN
COMMENT 'internal: whether IPv6 addresses of a network count as IPv4 ones'
DETERMINISTIC
SQL SECURITY INVOKER
NO SQL
BEGIN
  -- Called by derive_network and derive_target. Says that all addresses of an IPv6 network, in
  -- the form of INET6_ATON, stand for IPv4 addresses and are counted as those: IPv4-mapped,
  -- -compatible and -translated ones, NAT64, 6to4, Teredo. holdsIPv4Alone is the same rule in
  -- Go, where ipv4In says more. FALSE for IPv4, NULL for NULL.
  DECLARE v_hex CHAR(32) CHARACTER SET ascii DEFAULT HEX(p_address);
  RETURN LENGTH(p_address) = 16 AND CASE
    WHEN v_hex REGEXP '^0{20}FFFF|^0{16}FFFF0000|^0{24}(0[1-9A-F]|[1-9A-F])' THEN p_length >= 96
    WHEN v_hex REGEXP '^0064FF9B0{16}' THEN p_length >= 48
    WHEN v_hex LIKE '2002%' THEN p_length >= 16
    WHEN v_hex LIKE '20010000%' THEN p_length >= 32
    ELSE FALSE
  END;
END
