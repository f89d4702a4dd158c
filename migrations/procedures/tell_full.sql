CREATE /*M! OR REPLACE */ PROCEDURE tell_full(
  IN p_zone_id    INT,
  IN p_bucket_key VARCHAR(256) CHARACTER SET utf8mb4 COLLATE /*!80017 utf8mb4_0900_bin */ /*M! utf8mb4_nopad_bin */,
  IN p_now        DATETIME(6),
  IN p_oldest     DATETIME(6),
  IN p_window     INT,
  IN p_period     VARCHAR(8) CHARACTER SET ascii,
  IN p_offset     INT,
  IN p_anchor     INT,
  IN p_txn_id     BIGINT UNSIGNED
)
COMMENT 'internal: notes that a txn took the last place of a bucket'
SQL SECURITY INVOKER
MODIFIES SQL DATA
BEGIN
  -- Called by check_velocity_by_rule and decide_check, under the bucket's lock, after an attempt that took the last place was
  -- recorded as p_txn_id. Writes zone_event if the zone has full_events. p_oldest is the time of the oldest other txn that
  -- counts, or NULL, and p_window to p_anchor are the limit's. LAST_INSERT_ID() is p_txn_id afterwards. batch.tell does the
  -- same in Go.
  DECLARE v_since, v_until DATETIME(6);
  SET p_oldest = LEAST(COALESCE(p_oldest, p_now), p_now);
  CALL find_period(p_oldest, p_window, p_period, p_offset, p_anchor, v_since, v_until);
  INSERT INTO zone_event (created_at, type, zone_id, bucket_key, txn_id, data)
  SELECT p_now, 'bucket.full', id, p_bucket_key, p_txn_id,
         JSON_OBJECT('full_until', DATE_FORMAT(COALESCE(v_until, p_oldest + INTERVAL p_window SECOND), '%Y-%m-%dT%H:%i:%s.%fZ'))
    FROM zone_master
   WHERE id = p_zone_id
     AND full_events = TRUE;
  DO LAST_INSERT_ID(p_txn_id);
END
