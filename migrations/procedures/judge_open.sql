CREATE /*M! OR REPLACE */ PROCEDURE judge_open(
  IN    p_zone_id    INT,
  IN    p_bucket_key VARCHAR(256) CHARACTER SET utf8mb4 COLLATE /*!80017 utf8mb4_0900_bin */ /*M! utf8mb4_nopad_bin */,
  IN    p_now        DATETIME(6),
  IN    p_concurrent INT,
  INOUT p_wait       BIGINT,
  INOUT p_reason     VARCHAR(10) CHARACTER SET ascii
)
COMMENT 'internal: the part of the rule about attempts without an outcome'
SQL SECURITY INVOKER
MODIFIES SQL DATA
BEGIN
  -- Called by judge_bucket in a zone with concurrent. If p_concurrent counted attempts of the bucket
  -- have no outcome, each for less than reserve_ttl, p_wait becomes no shorter than the microseconds until
  -- the oldest of them has ended, and p_reason becomes concurrent if there is none yet. It reads the
  -- counted attempts of the last reserve_ttl, the newest first, and their rows, and stops at p_concurrent
  -- without an outcome.
  DECLARE v_open, v_ttl INT;
  DECLARE v_oldest DATETIME(6);

  -- An aggregate, as a SELECT … INTO without a row raises a condition (1329).
  SELECT MAX(COALESCE(reserve_ttl, `window`))
    INTO v_ttl
    FROM zone_master
   WHERE id = p_zone_id;
  SELECT COUNT(*), MIN(newest.created_at)
    INTO v_open, v_oldest
    FROM (
      SELECT created_at
        FROM zone_txn FORCE INDEX (zone_txn_window)
       WHERE zone_id = p_zone_id
         AND bucket_key = p_bucket_key
         AND counted = TRUE
         AND created_at > p_now - INTERVAL v_ttl SECOND
         AND outcome IS NULL
       ORDER BY created_at DESC
       LIMIT p_concurrent
    ) AS newest;
  IF v_open >= p_concurrent THEN
    SET p_wait = GREATEST(p_wait, TIMESTAMPDIFF(MICROSECOND, p_now, v_oldest + INTERVAL v_ttl SECOND)),
        p_reason = COALESCE(p_reason, 'concurrent');
  END IF;
END
