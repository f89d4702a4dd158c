CREATE /*M! OR REPLACE */ PROCEDURE forget_tally(
  IN p_zone_id    INT,
  IN p_bucket_key VARCHAR(256) CHARACTER SET utf8mb4 COLLATE /*!80017 utf8mb4_0900_bin */ /*M! utf8mb4_nopad_bin */,
  IN p_since      DATETIME(6)
)
COMMENT 'internal: drops a tally that has become wrong'
SQL SECURITY INVOKER
MODIFIES SQL DATA
BEGIN
  -- Called by a writer that records a txn at or after p_since, or lets one from then on no longer
  -- count: a tally whose interval reaches p_since is wrong then. The caller holds the
  -- bucket's lock.
  UPDATE zone_bucket_lock
     SET tally_until = NULL
   WHERE zone_id = p_zone_id
     AND bucket_key = p_bucket_key
     AND tally_until >= p_since;
END
