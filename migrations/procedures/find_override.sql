CREATE /*M! OR REPLACE */ PROCEDURE find_override(
  IN  p_zone_id    INT,
  IN  p_bucket_key VARCHAR(256) CHARACTER SET utf8mb4 COLLATE /*!80017 utf8mb4_0900_bin */ /*M! utf8mb4_nopad_bin */,
  IN  p_is_ip      BOOLEAN,
  IN  p_now        DATETIME(6),
  OUT p_id         BIGINT UNSIGNED,
  OUT p_action     VARCHAR(8) CHARACTER SET ascii,
  OUT p_rate       INT,
  OUT p_window     INT,
  OUT p_anchor     INT,
  OUT p_expires_at DATETIME(6)
)
COMMENT 'internal: the override in force for a bucket'
SQL SECURITY INVOKER
READS SQL DATA
BEGIN
  -- Called by judge_bucket and uncount_bucket. Finds the override in force for a bucket at
  -- p_now: the one for the exact key or, in an ip zone, for the longest prefix. All outputs are
  -- NULL if there is none. judge_bucket calls it only for zones that have or had overrides.
  DECLARE v_text    VARCHAR(256) CHARACTER SET ascii;
  DECLARE v_address VARBINARY(16);
  DECLARE v_bits    VARCHAR(128) CHARACTER SET ascii;
  DECLARE v_length  INT;
  -- "No row" is a normal result. It is handled here so that the caller's own handler for
  -- NOT FOUND does not fire.
  DECLARE CONTINUE HANDLER FOR NOT FOUND BEGIN END;
  SELECT id, action, rate, `window`, period_anchor, expires_at
    INTO p_id, p_action, p_rate, p_window, p_anchor, p_expires_at
    FROM zone_override
   WHERE zone_id = p_zone_id
     AND bucket_key = p_bucket_key
     AND (expires_at IS NULL OR expires_at > p_now);

  IF p_id IS NULL AND p_is_ip AND p_bucket_key REGEXP '^[0-9a-f.:]+(/(0|[1-9][0-9]{0,2}))?\\z' THEN
    SET v_text = SUBSTRING_INDEX(p_bucket_key, '/', 1);
    -- A key that is no address has no network. INET6_ATON would fail on it in MySQL (1411).
    SET v_address = IF(IS_IPV4(v_text) OR IS_IPV6(v_text), INET6_ATON(v_text), NULL);
    SET v_bits = address_bits(v_address);
    SET v_length = IF(LOCATE('/', p_bucket_key) > 0, SUBSTRING_INDEX(p_bucket_key, '/', -1), LENGTH(v_bits));
    -- One lookup by zone_override_network for each length that the zone has.
    SELECT o.id, o.action, o.rate, o.`window`, o.period_anchor, o.expires_at
      INTO p_id, p_action, p_rate, p_window, p_anchor, p_expires_at
      FROM zone_override_prefix_length AS k
     STRAIGHT_JOIN zone_override AS o
        ON o.zone_id = k.zone_id
       AND o.network = CONCAT(k.family, ':', LEFT(v_bits, k.prefix_length))
     WHERE k.zone_id = p_zone_id
       AND k.family = IF(LENGTH(v_bits) = 32, 4, 6)
       AND k.prefix_length <= v_length
       AND v_length <= LENGTH(v_bits)
       AND (o.expires_at IS NULL OR o.expires_at > p_now)
     ORDER BY k.prefix_length DESC
     LIMIT 1;
  END IF;
END
