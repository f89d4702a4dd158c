-- Brings prefix into canonical form and derives network from it.
CREATE TRIGGER zone_override_before_insert
BEFORE INSERT ON zone_override
FOR EACH ROW
BEGIN
  DECLARE v_address VARBINARY(16) DEFAULT NULL;
  DECLARE v_bits    VARCHAR(128) CHARACTER SET ascii;
  DECLARE v_length  INT;
  -- Before the row and its foreign key, so that the zone's row is locked at once
  -- and not shared first.
  UPDATE zone_master
     SET overridden = TRUE
   WHERE id = NEW.zone_id
     AND NOT overridden;
  SET NEW.network = NULL;
  IF NEW.prefix IS NOT NULL THEN
    IF NEW.prefix REGEXP '^[0-9A-Fa-f.:]+/(0|[1-9][0-9]{0,2})$' THEN
      SET v_address = INET6_ATON(SUBSTRING_INDEX(NEW.prefix, '/', 1));
      SET v_length = SUBSTRING_INDEX(NEW.prefix, '/', -1);
    END IF;
    IF v_address IS NULL OR v_length > 8 * LENGTH(v_address) OR HEX(v_address) REGEXP '^0{20}FFFF.{8}$' THEN
      SIGNAL SQLSTATE '45000' SET MYSQL_ERRNO = 45400,
        MESSAGE_TEXT = 'prefix must be an IPv4 or IPv6 network such as 203.0.113.0/24';
    END IF;
    -- Bit by bit as text, because MariaDB's bit operators end at 64 bits.
    SET v_bits = LPAD(CONV(LEFT(HEX(v_address), 16), 16, 2), LEAST(64, 8 * LENGTH(v_address)), '0');
    IF LENGTH(v_address) = 16 THEN
      SET v_bits = CONCAT(v_bits, LPAD(CONV(RIGHT(HEX(v_address), 16), 16, 2), 64, '0'));
    END IF;
    IF LOCATE('1', v_bits, v_length + 1) > 0 THEN
      SIGNAL SQLSTATE '45000' SET MYSQL_ERRNO = 45400,
        MESSAGE_TEXT = 'prefix must have no bits set beyond its length, such as 203.0.113.0/24';
    END IF;
    SET NEW.prefix = CONCAT(INET6_NTOA(v_address), '/', v_length);
    SET NEW.network = CONCAT(IF(LENGTH(v_address) = 4, '4:', '6:'), LEFT(v_bits, v_length));
  END IF;
  IF NEW.created_by = '' THEN
    SET NEW.created_by = LEFT(COALESCE(@velocityd_principal, SESSION_USER()), 128);
  END IF;
END
