CREATE PROCEDURE check_velocity(IN p_zone_id INT, IN p_bucket_key VARCHAR(255) CHARACTER SET utf8mb4)
BEGIN
  DECLARE v_rate INT;
  DECLARE v_window INT;
  DECLARE v_count INT;
  DECLARE v_locked INT;
  SELECT rate, `window` INTO v_rate, v_window FROM zone_master WHERE id = p_zone_id;
  INSERT IGNORE INTO zone_bucket_lock (zone_id, bucket_key) VALUES (p_zone_id, p_bucket_key);
  START TRANSACTION;
  SELECT zone_id INTO v_locked FROM zone_bucket_lock
   WHERE zone_id = p_zone_id AND bucket_key = p_bucket_key FOR UPDATE;
  SELECT COUNT(*) INTO v_count FROM zone_txn
   WHERE zone_id = p_zone_id AND bucket_key = p_bucket_key AND blocked = FALSE
     AND created_at > NOW(6) - INTERVAL v_window SECOND;
  INSERT INTO zone_txn (zone_id, bucket_key, blocked, created_at)
  VALUES (p_zone_id, p_bucket_key, v_count >= v_rate, NOW(6));
  COMMIT;
  SELECT v_count >= v_rate AS blocked, LAST_INSERT_ID() AS txn_id, p_zone_id AS zone_id,
         p_bucket_key AS bucket_key, v_rate AS rate, v_window AS `window`;
END
