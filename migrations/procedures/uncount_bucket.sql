CREATE /*M! OR REPLACE */ PROCEDURE uncount_bucket(
  IN p_zone_id    INT,
  IN p_bucket_key VARCHAR(256) CHARACTER SET utf8mb4 COLLATE /*!80017 utf8mb4_0900_bin */ /*M! utf8mb4_nopad_bin */,
  IN p_now        DATETIME(6)
)
COMMENT 'internal: called by record_outcome and release_bucket'
SQL SECURITY INVOKER
MODIFIES SQL DATA
BEGIN
  -- Sets counted = FALSE for every txn that counts in the bucket's window at p_now. The caller
  -- holds the bucket's lock.
  DECLARE v_done BOOLEAN DEFAULT FALSE;
  DECLARE v_window, v_own, v_rate INT;
  DECLARE v_is_ip BOOLEAN;
  DECLARE v_id BIGINT UNSIGNED;
  DECLARE v_action VARCHAR(8) CHARACTER SET ascii;
  DECLARE v_until, v_since, v_created_at DATETIME(6);
  DECLARE counting CURSOR FOR
    SELECT id, created_at
      FROM zone_txn FORCE INDEX (zone_txn_window)
     WHERE zone_id = p_zone_id
       AND bucket_key = p_bucket_key
       AND counted = TRUE
       AND created_at > v_since;
  DECLARE CONTINUE HANDLER FOR NOT FOUND SET v_done = TRUE;
  SELECT `window`, key_kind = 'ip'
    INTO v_window, v_is_ip
    FROM zone_master
   WHERE id = p_zone_id;
  -- The window of an override may be longer than the zone's.
  CALL find_override(p_zone_id, p_bucket_key, v_is_ip, p_now, v_id, v_action, v_rate, v_own, v_until);
  SET v_since = p_now - INTERVAL GREATEST(v_window, COALESCE(v_own, 0)) SECOND;
  -- Each txn by its primary key: an UPDATE of the range would lock the row behind it as well, which
  -- is another bucket's, and wait for whoever has just recorded that one.
  SET v_done = FALSE;
  OPEN counting;
  the_txns: LOOP
    FETCH counting INTO v_id, v_created_at;
    IF v_done THEN
      LEAVE the_txns;
    END IF;
    UPDATE zone_txn
       SET counted = FALSE
     WHERE id = v_id
       AND created_at = v_created_at;
  END LOOP;
  CLOSE counting;
  CALL forget_tally(p_zone_id, p_bucket_key, v_since);
END
