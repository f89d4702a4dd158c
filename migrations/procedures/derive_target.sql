CREATE /*M! OR REPLACE */ PROCEDURE derive_target(
  IN    p_zone_id    INT,
  INOUT p_bucket_key VARCHAR(255) CHARACTER SET utf8mb4 COLLATE /*!80017 utf8mb4_0900_bin */ /*M! utf8mb4_nopad_bin */,
  INOUT p_prefix     VARCHAR(43) CHARACTER SET ascii,
  OUT   p_network    VARCHAR(130) CHARACTER SET ascii COLLATE ascii_bin
)
COMMENT 'internal: the target of an override, called by the triggers of zone_override'
SQL SECURITY INVOKER
READS SQL DATA
BEGIN
  -- Refuses a target that no bucket of the zone can have (error 45400), brings a prefix into
  -- its one form and derives the network from it. A prefix as long as the zone's buckets is
  -- the key of one: it is moved to p_bucket_key. KeyRule.Target is the same rule in Go.
  --
  -- Of user names this refuses capital letters of ASCII and spaces around alone. Whether
  -- other characters are normal takes the tables of Unicode: `velocityd zone lint` looks.
  -- Where keys are kept as pseudonyms, a target is the pseudonym of one bucket.
  --
  -- A key that begins with erased: is taken everywhere: it stands in the place of one that was erased.
  --
  -- A session with foreign_key_checks = 0 restores a dump. It may hold rows that fitted their
  -- zone when they were made, and they are taken as they are.
  DECLARE v_kind VARCHAR(32) CHARACTER SET ascii;
  DECLARE v_rule VARCHAR(32) CHARACTER SET ascii;
  DECLARE v_ipv4_prefix, v_ipv6_prefix, v_length INT;
  DECLARE v_text VARCHAR(255) CHARACTER SET utf8mb4;
  DECLARE v_address VARBINARY(16);
  DECLARE v_bits VARCHAR(128) CHARACTER SET ascii;
  DECLARE v_message VARCHAR(128);
  CALL derive_network(p_prefix, p_network);
  IF @@SESSION.foreign_key_checks THEN
    -- An aggregate, so that an unknown zone is a row of NULLs. The foreign key refuses it later.
    -- The lock reads the zone as it is now, and not as it was when the transaction began.
    SELECT MAX(key_kind), MAX(key_rule), MAX(ipv4_prefix), MAX(ipv6_prefix)
      INTO v_kind, v_rule, v_ipv4_prefix, v_ipv6_prefix
      FROM zone_master
     WHERE id = p_zone_id
      LOCK IN SHARE MODE;
    -- Each address of 64:ff9b::/47 is a bucket, unless the zone's buckets are larger than that.
    IF v_ipv6_prefix >= 47 AND COALESCE(p_prefix, p_bucket_key) REGEXP '^64:ff9b:[01]?:' THEN
      SET v_ipv6_prefix = 128;
    END IF;
    IF v_rule LIKE 'hmac/%' THEN
      IF p_prefix IS NOT NULL THEN
        SET v_message = 'prefix needs a zone whose key_form is clear: this one keeps pseudonyms, so it would match no bucket';
      ELSEIF p_bucket_key IS NOT NULL THEN
        CALL validate_bucket(p_zone_id, p_bucket_key, v_rule, NULL);
      END IF;
    ELSEIF p_prefix IS NOT NULL THEN
      SET v_length = IF(p_network LIKE '4:%', v_ipv4_prefix, v_ipv6_prefix);
      IF v_kind <> 'ip' THEN
        SET v_message = CONCAT('prefix needs a zone whose key_kind is ip: this one is ', v_kind, ', so it would match no bucket');
      ELSEIF LENGTH(p_network) - 2 > v_length THEN
        SET v_message = CONCAT('prefix must not be longer than /', v_length, ', the length of this zone''s buckets');
      ELSEIF LENGTH(p_network) - 2 = v_length AND p_bucket_key IS NULL THEN
        SET p_bucket_key = IF(v_length = IF(p_network LIKE '4:%', 32, 128), SUBSTRING_INDEX(p_prefix, '/', 1), p_prefix),
            p_prefix = NULL, p_network = NULL;
      END IF;
    ELSEIF v_kind = 'ip' AND p_bucket_key IS NOT NULL AND p_bucket_key NOT LIKE 'erased:%' THEN
      SET v_text = SUBSTRING_INDEX(p_bucket_key, '/', 1);
      SET v_address = IF(IS_IPV4(v_text) OR IS_IPV6(v_text), INET6_ATON(v_text), NULL);
      SET v_bits = address_bits(v_address);
      SET v_length = IF(LENGTH(v_address) = 4, v_ipv4_prefix, v_ipv6_prefix);
      IF NOT COALESCE(LOCATE('1', v_bits, v_length + 1) = 0
          AND NOT holds_ipv4(v_address, v_length)
          AND p_bucket_key = CONCAT(address_text(v_address), IF(v_length < LENGTH(v_bits), CONCAT('/', v_length), '')), FALSE) THEN
        SET v_message = CONCAT('bucket_key must be an IPv4 ', IF(v_ipv4_prefix = 32, 'address', CONCAT('network of /', v_ipv4_prefix)),
          ' or an IPv6 ', IF(v_ipv6_prefix = 128, 'address', CONCAT('network of /', v_ipv6_prefix)),
          ': lower case, shortest form, no host bits');
      END IF;
    ELSEIF v_kind LIKE 'username%' AND (p_bucket_key REGEXP '[A-Z]' OR p_bucket_key <> TRIM(p_bucket_key)) THEN
      SET v_message = 'bucket_key must be a user name as this zone writes them: lower case, no spaces around';
    END IF;
    IF v_message IS NOT NULL THEN
      SIGNAL SQLSTATE '45000' SET MYSQL_ERRNO = 45400, MESSAGE_TEXT = v_message;
    END IF;
  END IF;
END
