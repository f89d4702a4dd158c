-- A zone may keep a pseudonym in the place of each key. key_rule tells both forms apart, so
-- that a check whose key was made for the other form is refused like one of another
-- key_kind: whoever has not heard of key_form never writes a clear key into such a zone.
ALTER TABLE zone_master
  ADD COLUMN key_form ENUM('clear', 'hmac') CHARACTER SET ascii NOT NULL DEFAULT 'clear'
    COMMENT 'clear: keys are kept as they are; hmac: as pseudonyms, which the service makes; a change begins all windows anew'
    AFTER key_kind,
  ADD CONSTRAINT `key_form must be clear or hmac` CHECK (key_form <> ''),
  MODIFY COLUMN key_rule VARCHAR(16) CHARACTER SET ascii
    AS (CONCAT(IF(key_form = 'hmac', 'hmac/', ''), IF(key_kind = 'ip', CONCAT('ip/', ipv4_prefix, '/', ipv6_prefix), key_kind))) STORED
    COMMENT 'kept by the schema: key_form, key_kind and prefixes in one word; a check of keys normalised by another rule is refused'
