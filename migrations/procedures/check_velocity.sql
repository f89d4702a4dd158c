CREATE /*M! OR REPLACE */ PROCEDURE check_velocity(
  IN p_zone_id    INT,
  IN p_bucket_key VARCHAR(256) CHARACTER SET utf8mb4 COLLATE /*!80017 utf8mb4_0900_bin */ /*M! utf8mb4_nopad_bin */
)
COMMENT 'public: may this attempt go ahead?'
SQL SECURITY DEFINER
MODIFIES SQL DATA
BEGIN
  -- May this attempt go ahead? Decides, records the attempt, commits and answers with one row:
  --   CALL check_velocity(1, 'alice')
  -- The arguments are the zone's id and the key of the bucket. The columns are:
  --   blocked, txn_id, zone_id, bucket_key, rate, window, remaining, retry_after,
  --   checked_at, would_block, velocity, reason, override_id, reset_after
  -- retry_after is in whole seconds, 0 unless blocked. reset_after is so many seconds until the end of the zone's
  -- period, 0 without one. checked_at is UTC. would_block says
  -- that the bucket has no room, and reason why: full, locked (by a lockout that began before), lockout (it was
  -- full, so one begins), denied (by the override of override_id) or concurrent (as many attempts as the
  -- zone's concurrent have no outcome yet). They are the same in the modes enforce and shadow, and the attempt
  -- is blocked only if the mode is enforce.
  --
  -- Where no limit decides, because the zone is off or an override allows or denies, velocity and
  -- remaining are NULL.
  --
  -- Call it outside of a transaction. Errors:
  --   1568        it was called inside a transaction
  --   45404       the zone does not exist
  --   45400       the key is empty or too long, or not as its zone writes keys as far as SQL can see
  --               (see validate_bucket), or the session has set insert_id
  --   3819, 4025  the key has control characters (on MySQL, on MariaDB)
  --   45504       the attempt IS recorded, but the engine could not send the answer
  -- All but the last record nothing and leave no lock row.
  --
  -- It sets two variables of the session to their defaults, because other values would change
  -- the decision: timestamp, and on MariaDB check_constraint_checks.
  CALL check_velocity_by_rule(p_zone_id, p_bucket_key, NULL, TRUE);
END
