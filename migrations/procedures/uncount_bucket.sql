CREATE /*M! OR REPLACE */ PROCEDURE uncount_bucket(
  IN p_zone_id    INT,
  IN p_bucket_key VARCHAR(256) CHARACTER SET utf8mb4 COLLATE /*!80017 utf8mb4_0900_bin */ /*M! utf8mb4_nopad_bin */,
  IN p_now        DATETIME(6)
)
COMMENT 'internal: called by record_outcome and release_bucket'
SQL SECURITY INVOKER
MODIFIES SQL DATA
BEGIN
  -- Sets counted = FALSE, and uncounted_at, for every txn that counts in the bucket at p_now. The caller
  -- holds the bucket's lock.
  DECLARE v_window, v_offset, v_anchor, v_own, v_own_anchor, v_rate, v_counted INT;
  DECLARE v_period VARCHAR(8) CHARACTER SET ascii;
  DECLARE v_is_ip BOOLEAN;
  DECLARE v_id BIGINT UNSIGNED;
  DECLARE v_action VARCHAR(8) CHARACTER SET ascii;
  DECLARE v_until, v_since, v_since_own DATETIME(6);
  DECLARE CONTINUE HANDLER FOR NOT FOUND BEGIN END;
  SELECT `window`, period, period_offset, period_anchor, key_kind = 'ip'
    INTO v_window, v_period, v_offset, v_anchor, v_is_ip
    FROM zone_master
   WHERE id = p_zone_id;
  -- By an override they may count longer than by the zone.
  CALL find_override(p_zone_id, p_bucket_key, v_is_ip, p_now, v_id, v_action, v_rate, v_own, v_own_anchor, v_until);
  CALL find_period(p_now, v_window, v_period, v_offset, v_anchor, v_since, v_until);
  CALL find_period(p_now, COALESCE(v_own, v_window), IF(v_own IS NULL, v_period, 'none'), v_offset,
    COALESCE(v_own_anchor, v_anchor), v_since_own, v_until);
  SET v_since = LEAST(v_since, v_since_own);
  SELECT COUNT(*)
    INTO v_counted
    FROM zone_txn
   WHERE zone_id = p_zone_id
     AND bucket_key = p_bucket_key
     AND counted = TRUE
     AND created_at > v_since;
  -- With LIMIT the UPDATE ends at the last of them. Without LIMIT it would lock the row behind the range
  -- as well, which is another bucket's, and wait for the session that has just recorded that one. Without FORCE
  -- INDEX MariaDB may read the whole table.
  UPDATE zone_txn FORCE INDEX (zone_txn_window)
     SET counted = FALSE,
         uncounted_at = p_now
   WHERE zone_id = p_zone_id
     AND bucket_key = p_bucket_key
     AND counted = TRUE
     AND created_at > v_since
   LIMIT v_counted;
  CALL forget_tally(p_zone_id, p_bucket_key, v_since);
END
