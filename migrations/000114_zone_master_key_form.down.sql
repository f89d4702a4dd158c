ALTER TABLE zone_master
  MODIFY COLUMN key_rule VARCHAR(16) CHARACTER SET ascii
    AS (IF(key_kind = 'ip', CONCAT('ip/', ipv4_prefix, '/', ipv6_prefix), key_kind)) STORED
    COMMENT 'kept by the schema: key_kind and prefixes in one word; a check of keys normalised by another rule is refused',
  DROP CONSTRAINT `key_form must be clear or hmac`,
  DROP COLUMN key_form
