CREATE /*M! OR REPLACE */ PROCEDURE forget_tally(
  IN p_zone_id    INT,
  IN p_bucket_key VARCHAR(256) CHARACTER SET utf8mb4 COLLATE /*!80017 utf8mb4_0900_bin */ /*M! utf8mb4_nopad_bin */,
  IN p_since      DATETIME(6)
)
COMMENT 'internal: a tally that is true no longer'
SQL SECURITY INVOKER
MODIFIES SQL DATA
BEGIN
  -- Among the bucket's txns from p_since on some were recorded, or count no longer: a tally
  -- that reaches so far is wrong. The caller holds the bucket's lock.
  UPDATE zone_bucket_lock
     SET tally_until = NULL
   WHERE zone_id = p_zone_id
     AND bucket_key = p_bucket_key
     AND tally_until >= p_since;
END
