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
  -- the key of one: it is moved to p_bucket_key. validate_bucket says which keys a zone has, and
  -- `velocityd zone lint` finds those that it cannot see. KeyRule.Target is the same rule in Go.
  --
  -- A session with foreign_key_checks = 0 restores a dump. It may hold rows that fitted their
  -- zone when they were made, and they are taken as they are.
  DECLARE v_rule VARCHAR(32) CHARACTER SET ascii;
  DECLARE v_length INT;
  DECLARE v_message VARCHAR(128);
  CALL derive_network(p_prefix, p_network);
  IF @@SESSION.foreign_key_checks THEN
    -- An aggregate, so that an unknown zone is a row of NULLs. The foreign key refuses it later.
    -- The lock reads the zone as it is now, and not as it was when the transaction began.
    SELECT MAX(key_rule)
      INTO v_rule
      FROM zone_master
     WHERE id = p_zone_id
      LOCK IN SHARE MODE;
    IF p_prefix IS NULL THEN
      IF p_bucket_key IS NOT NULL AND v_rule IS NOT NULL THEN
        CALL validate_bucket(p_zone_id, p_bucket_key, v_rule, IF(v_rule LIKE 'ip/%' AND p_bucket_key LIKE 'erased:%', v_rule, NULL));
      END IF;
    ELSEIF v_rule LIKE 'hmac/%' THEN
      SET v_message = 'prefix needs a zone whose key_form is clear: this one keeps pseudonyms, so it would match no bucket';
    ELSEIF v_rule NOT LIKE 'ip/%' THEN
      SET v_message = CONCAT('prefix needs a zone whose key_kind is ip: this one is ', v_rule, ', so it would match no bucket');
    ELSEIF v_rule IS NOT NULL THEN
      SET v_length = SUBSTRING_INDEX(SUBSTRING_INDEX(v_rule, '/', IF(p_network LIKE '4:%', -2, -1)), '/', 1);
      -- validate_bucket says why.
      SET v_length = IF(v_length >= 47 AND p_prefix REGEXP '^64:ff9b:[01]?:', 128, v_length);
      IF LENGTH(p_network) - 2 > v_length THEN
        SET v_message = CONCAT('prefix must not be longer than /', v_length, ', the length of this zone''s buckets');
      ELSEIF LENGTH(p_network) - 2 = v_length AND p_bucket_key IS NULL THEN
        SET p_bucket_key = IF(v_length = IF(p_network LIKE '4:%', 32, 128), SUBSTRING_INDEX(p_prefix, '/', 1), p_prefix),
            p_prefix = NULL, p_network = NULL;
      END IF;
    END IF;
    IF v_message IS NOT NULL THEN
      SIGNAL SQLSTATE '45000' SET MYSQL_ERRNO = 45400, MESSAGE_TEXT = v_message;
    END IF;
  END IF;
END
