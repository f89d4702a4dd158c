CREATE /*M! OR REPLACE */ PROCEDURE find_limit_then(
  IN  p_zone_id INT,
  IN  p_at      DATETIME(6),
  OUT p_rate    INT,
  OUT p_window  INT,
  OUT p_period  VARCHAR(8) CHARACTER SET ascii,
  OUT p_since   DATETIME(6),
  OUT p_until   DATETIME(6)
)
COMMENT 'internal: called by explain_txn'
SQL SECURITY INVOKER
READS SQL DATA
BEGIN
  -- Finds the limit that a zone had at p_at, by zone_audit: p_rate attempts in p_window seconds or in a p_period. p_since
  -- and p_until are those of find_period. All are NULL if there was no such zone.
  DECLARE v_offset, v_anchor INT;
  DECLARE v_change BIGINT UNSIGNED;
  DECLARE v_zone LONGTEXT CHARACTER SET utf8mb4;

  -- The zone was as it is before its first change after p_at. Without such a change it is as it was.
  SELECT MIN(id)
    INTO v_change
    FROM zone_audit
   WHERE zone_id = p_zone_id
     AND subject = 'zone'
     AND changed_at > p_at;
  IF v_change IS NULL THEN
    SELECT MAX(JSON_OBJECT('rate', rate, 'window', `window`, 'period', period, 'offset', period_offset, 'anchor', period_anchor))
      INTO v_zone
      FROM zone_master
     WHERE id = p_zone_id;
  ELSE
    SELECT MAX(JSON_OBJECT('rate', JSON_VALUE(state_before, '$.rate'), 'window', JSON_VALUE(state_before, '$.window'),
                           'period', JSON_VALUE(state_before, '$.period'), 'offset', JSON_VALUE(state_before, '$.period_offset'),
                           'anchor', JSON_VALUE(state_before, '$.period_anchor')))
      INTO v_zone
      FROM zone_audit
     WHERE id = v_change;
  END IF;
  SET p_rate = JSON_VALUE(v_zone, '$.rate'),
      p_window = JSON_VALUE(v_zone, '$.window'),
      p_period = JSON_VALUE(v_zone, '$.period'),
      v_offset = JSON_VALUE(v_zone, '$.offset'),
      v_anchor = JSON_VALUE(v_zone, '$.anchor');
  IF p_rate IS NOT NULL THEN
    CALL find_period(p_at, p_window, p_period, v_offset, v_anchor, p_since, p_until);
  END IF;
END
