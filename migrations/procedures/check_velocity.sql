CREATE /*M! OR REPLACE */ PROCEDURE check_velocity(
  IN p_zone_id    INT,
  IN p_bucket_key VARCHAR(256) CHARACTER SET utf8mb4 COLLATE /*!80017 utf8mb4_0900_bin */ /*M! utf8mb4_nopad_bin */
)
COMMENT 'public: may this attempt go ahead?'
SQL SECURITY DEFINER
MODIFIES SQL DATA
BEGIN
  -- May this attempt go ahead? CALL check_velocity(zone_id, bucket_key) decides, records
  -- the attempt, commits and answers with one row:
  --   blocked, txn_id, zone_id, bucket_key, rate, window, remaining, retry_after,
  --   checked_at, would_block, velocity
  -- retry_after is in whole seconds, 0 unless blocked; checked_at is UTC. would_block says
  -- that the bucket has no room, is locked or denied, whether or not the zone's mode lets
  -- it block.
  --
  -- It owns its transaction: call it outside of one (inside, error 1568). Errors: 45404 for
  -- a zone that does not exist; 45400 for a key that is empty or too long, or an insert_id
  -- set in the session; 3819 (MySQL) or 4025 (MariaDB) for a key with control characters.
  -- None of them records anything or leaves a lock row. 45504: recorded, but the engine
  -- could not answer. It sets variables of the session to their defaults, since they would move
  -- the decision: timestamp, and on MariaDB check_constraint_checks.
  CALL check_velocity_by_rule(p_zone_id, p_bucket_key, NULL, TRUE);
END
