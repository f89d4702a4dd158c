CREATE /*M! OR REPLACE */ PROCEDURE release_lockout(
  IN p_zone_id    INT,
  IN p_bucket_key VARCHAR(256) CHARACTER SET utf8mb4 COLLATE /*!80017 utf8mb4_0900_bin */ /*M! utf8mb4_nopad_bin */,
  IN p_now        DATETIME(6)
)
COMMENT 'internal: notes that a release ended a lockout'
SQL SECURITY INVOKER
MODIFIES SQL DATA
BEGIN
  -- Called by release_bucket, under the bucket's lock. If zone_lockout has a lockout of the bucket that ends after p_now, its
  -- row goes, and an event says so.
  DECLARE v_locked_at DATETIME(6);
  DECLARE v_txn_id BIGINT UNSIGNED;
  -- Aggregates, as a SELECT … INTO without a row raises a condition (1329). The lock keeps end_lockouts from the row.
  SELECT MAX(locked_at), MAX(txn_id)
    INTO v_locked_at, v_txn_id
    FROM zone_lockout
   WHERE zone_id = p_zone_id
     AND bucket_key = p_bucket_key
     AND locked_until > p_now
     FOR UPDATE;
  IF v_locked_at IS NOT NULL THEN
    INSERT INTO zone_event (created_at, type, zone_id, bucket_key, txn_id, data)
    VALUES (p_now, 'bucket.lock_ended', p_zone_id, p_bucket_key, v_txn_id,
            JSON_OBJECT('locked_at', DATE_FORMAT(v_locked_at, '%Y-%m-%dT%H:%i:%s.%fZ'),
              'ended_at', DATE_FORMAT(p_now, '%Y-%m-%dT%H:%i:%s.%fZ'), 'cause', 'release'));
    DELETE FROM zone_lockout
     WHERE zone_id = p_zone_id
       AND bucket_key = p_bucket_key
       AND locked_at = v_locked_at;
  END IF;
END
