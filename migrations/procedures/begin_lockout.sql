CREATE /*M! OR REPLACE */ PROCEDURE begin_lockout(
  IN p_zone_id    INT,
  IN p_bucket_key VARCHAR(256) CHARACTER SET utf8mb4 COLLATE /*!80017 utf8mb4_0900_bin */ /*M! utf8mb4_nopad_bin */,
  IN p_now        DATETIME(6),
  IN p_txn_id     BIGINT UNSIGNED
)
COMMENT 'internal: notes that a lockout began with a txn'
SQL SECURITY INVOKER
MODIFIES SQL DATA
BEGIN
  -- Called by check_velocity_by_rule and decide_check, under the bucket's lock, after judge_bucket began a lockout in
  -- a zone that enforces and the attempt was recorded as p_txn_id. Writes zone_lockout and zone_event. LAST_INSERT_ID()
  -- is p_txn_id afterwards. batch.tellLockouts does the same in Go.
  INSERT INTO zone_lockout (zone_id, bucket_key, locked_at, locked_until, txn_id)
  SELECT zone_id, bucket_key, p_now, locked_until, p_txn_id
    FROM zone_bucket_lock
   WHERE zone_id = p_zone_id
     AND bucket_key = p_bucket_key
  ON DUPLICATE KEY UPDATE locked_until = VALUES(locked_until); -- the clock was set back to the very microsecond
  INSERT INTO zone_event (created_at, type, zone_id, bucket_key, txn_id, data)
  SELECT p_now, 'bucket.locked', zone_id, bucket_key, p_txn_id,
         JSON_OBJECT('locked_until', DATE_FORMAT(locked_until, '%Y-%m-%dT%H:%i:%s.%fZ'), 'reason', 'lockout')
    FROM zone_bucket_lock
   WHERE zone_id = p_zone_id
     AND bucket_key = p_bucket_key;
  DO LAST_INSERT_ID(p_txn_id);
END
