CREATE /*M! OR REPLACE */ PROCEDURE derive_network(
  INOUT p_prefix  VARCHAR(43) CHARACTER SET ascii,
  OUT   p_network VARCHAR(130) CHARACTER SET ascii COLLATE ascii_bin
)
COMMENT 'internal: the one form of a network, called by derive_target'
SQL SECURITY INVOKER
NO SQL
BEGIN
  -- Brings the prefix of an override into its one form ('203.0.113.0/24') and derives the
  -- network from it ('4:' and its 24 bits). A network of IPv4 addresses that is written as
  -- IPv6 (::ffff:203.0.113.0/120) becomes one of IPv4. Both results are NULL for NULL.
  -- Error 45400 for a text that is no IPv4 or IPv6 network, for bits set beyond the length, and
  -- for a network of other IPv6 addresses that count as IPv4 ones.
  DECLARE v_address VARBINARY(16);
  DECLARE v_text    VARCHAR(43) CHARACTER SET ascii DEFAULT SUBSTRING_INDEX(p_prefix, '/', 1);
  DECLARE v_bits    VARCHAR(128) CHARACTER SET ascii;
  DECLARE v_length  INT;
  DECLARE v_message VARCHAR(128);
  IF p_prefix IS NOT NULL THEN
    -- INET6_ATON would fail on other text in MySQL (1411).
    IF (IS_IPV4(v_text) OR IS_IPV6(v_text)) AND p_prefix REGEXP '^[^/]+/(0|[1-9][0-9]{0,2})\\z' THEN
      SET v_address = INET6_ATON(v_text);
      SET v_length = SUBSTRING_INDEX(p_prefix, '/', -1);
      IF HEX(v_address) REGEXP '^0{20}FFFF.{8}$' AND v_length BETWEEN 96 AND 128 THEN
        SET v_address = RIGHT(v_address, 4), v_length = v_length - 96;
      END IF;
    END IF;
    IF v_address IS NULL OR v_length > 8 * LENGTH(v_address) THEN
      SIGNAL SQLSTATE '45000' SET MYSQL_ERRNO = 45400,
        MESSAGE_TEXT = 'prefix must be an IPv4 or IPv6 network such as 203.0.113.0/24';
    END IF;
    SET v_bits = address_bits(v_address);
    IF LOCATE('1', v_bits, v_length + 1) > 0 THEN
      SET v_bits = RPAD(LEFT(v_bits, v_length), LENGTH(v_bits), '0');
      SET v_message = CONCAT('prefix must have no bits set beyond its length: write ',
        address_text(UNHEX(CONCAT(
          LPAD(CONV(LEFT(v_bits, 64), 2, 16), LEAST(16, LENGTH(v_bits) DIV 4), '0'),
          IF(LENGTH(v_bits) = 128, LPAD(CONV(RIGHT(v_bits, 64), 2, 16), 16, '0'), '')))), '/', v_length);
      SIGNAL SQLSTATE '45000' SET MYSQL_ERRNO = 45400, MESSAGE_TEXT = v_message;
    END IF;
    IF holds_ipv4(v_address, v_length) THEN
      SIGNAL SQLSTATE '45000' SET MYSQL_ERRNO = 45400,
        MESSAGE_TEXT = 'prefix holds addresses that count as the IPv4 addresses inside them: write the IPv4 network';
    END IF;
    SET p_prefix = CONCAT(address_text(v_address), '/', v_length);
    SET p_network = CONCAT(IF(LENGTH(v_address) = 4, '4:', '6:'), LEFT(v_bits, v_length));
  END IF;
END
