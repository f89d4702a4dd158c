CREATE /*M! OR REPLACE */ PROCEDURE validate_bucket(
  IN p_zone_id      BIGINT,
  IN p_bucket_key   VARCHAR(256) CHARACTER SET utf8mb4 COLLATE /*!80017 utf8mb4_0900_bin */ /*M! utf8mb4_nopad_bin */,
  IN p_key_rule     VARCHAR(32) CHARACTER SET ascii,
  IN p_callers_rule VARCHAR(32) CHARACTER SET ascii
)
COMMENT 'internal: refuses a key that the zone can not have'
SQL SECURITY INVOKER
NO SQL
BEGIN
  -- Called before a key is written anywhere. p_key_rule is the zone's, NULL if there is no such
  -- zone. p_callers_rule is the one by which the caller normalised the key, NULL if it does not
  -- say: then the form of the key is looked at. p_zone_id may be any number that a caller writes
  -- in JSON. Does nothing if all fits. Errors, whose messages do not repeat the key:
  --   45400  the key is empty or too long, or it is not as the zone writes keys
  --   45404  there is no such zone
  --   45410  the zone has another key_rule than the caller's
  -- KeyRule.Name and IsPseudonym are the same rules in Go. Of user names this refuses capital
  -- letters of ASCII and blanks around alone: other characters take the tables of Unicode.
  DECLARE v_ipv4_prefix, v_ipv6_prefix, v_length INT;
  DECLARE v_address VARBINARY(16);
  DECLARE v_text VARCHAR(255) CHARACTER SET utf8mb4;
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
  SET v_message = NULL;
  IF p_key_rule LIKE 'hmac/%' THEN
    IF p_bucket_key NOT REGEXP '^hmac:[a-z0-9-]{1,16}:[A-Za-z0-9_-]{43}$' OR p_bucket_key REGEXP '[[:cntrl:]]' THEN
      SET v_message = 'the key_form of this zone is hmac: bucket_key must be a pseudonym, which the service makes from a clear key';
    END IF;
  ELSEIF p_callers_rule IS NULL AND p_key_rule LIKE 'username%' THEN
    IF p_bucket_key REGEXP '[A-Z]|^[[:space:]]|[[:space:]]$' THEN
      SET v_message = 'bucket_key must be a user name as this zone writes them: lower case, no spaces around';
    END IF;
  ELSEIF p_callers_rule IS NULL AND p_key_rule LIKE 'ip/%' THEN
    SET v_ipv4_prefix = SUBSTRING_INDEX(SUBSTRING_INDEX(p_key_rule, '/', -2), '/', 1), v_ipv6_prefix = SUBSTRING_INDEX(p_key_rule, '/', -1),
        v_text = SUBSTRING_INDEX(p_bucket_key, '/', 1);
    -- Each address of 64:ff9b::/47 is a bucket, unless the zone's buckets are larger than that.
    IF v_ipv6_prefix >= 47 AND p_bucket_key REGEXP '^64:ff9b:[01]?:' THEN
      SET v_ipv6_prefix = 128;
    END IF;
    SET v_address = IF(IS_IPV4(v_text) OR IS_IPV6(v_text), INET6_ATON(v_text), NULL);
    SET v_length = IF(LENGTH(v_address) = 4, v_ipv4_prefix, v_ipv6_prefix);
    IF NOT COALESCE(LOCATE('1', address_bits(v_address), v_length + 1) = 0
        AND NOT holds_ipv4(v_address, v_length)
        AND p_bucket_key = CONCAT(address_text(v_address), IF(v_length < 8 * LENGTH(v_address), CONCAT('/', v_length), '')), FALSE) THEN
      SET v_message = CONCAT('bucket_key must be an IPv4 ', IF(v_ipv4_prefix = 32, 'address', CONCAT('network of /', v_ipv4_prefix)),
        ' or an IPv6 ', IF(v_ipv6_prefix = 128, 'address', CONCAT('network of /', v_ipv6_prefix)),
        ': lower case, shortest form, no host bits');
    END IF;
  END IF;
  IF v_message IS NOT NULL THEN
    SIGNAL SQLSTATE '45000' SET MYSQL_ERRNO = 45400, MESSAGE_TEXT = v_message;
  END IF;
END
