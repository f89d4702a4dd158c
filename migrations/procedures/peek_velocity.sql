CREATE /*M! OR REPLACE */ PROCEDURE peek_velocity(
  IN p_zone_id    INT,
  IN p_bucket_key VARCHAR(256) CHARACTER SET utf8mb4 COLLATE /*!80017 utf8mb4_0900_bin */ /*M! utf8mb4_nopad_bin */
)
COMMENT 'public: what an attempt would meet, without one'
SQL SECURITY DEFINER
MODIFIES SQL DATA
BEGIN
  -- Shows the bucket as check_velocity would find it now. It records no attempt, takes no lock and makes no
  -- row:
  --   CALL peek_velocity(1, 'alice')
  -- Answers with one row; a key that was never seen looks like one without recent attempts:
  --   zone_id, bucket_key, mode, rate, window, velocity, remaining, retry_after,
  --   locked_until, override_id, override_action, checked_at, reason, reset_after
  -- reset_after, remaining, retry_after (seconds) and reason (as that of check_velocity) hold for the next attempt, in
  -- a zone in shadow as if it were enforced. Where no limit decides, because the zone is off or an override
  -- allows or denies, velocity and remaining are NULL. Others may use the bucket before the answer arrives. Errors:
  --   45404  the zone does not exist
  --   45400  the key is empty or too long, or not as its zone writes keys: see validate_bucket
  -- It sets the session's timestamp to its default.
  DECLARE v_rate, v_window, v_lockout, v_concurrent, v_velocity, v_offset, v_anchor INT;
  DECLARE v_mode, v_action, v_period VARCHAR(8) CHARACTER SET ascii;
  DECLARE v_reason VARCHAR(10) CHARACTER SET ascii;
  DECLARE v_key_rule VARCHAR(32) CHARACTER SET ascii;
  DECLARE v_overridden, v_counts BOOLEAN;
  DECLARE v_now, v_oldest, v_since, v_until, v_locked_until DATETIME(6);
  DECLARE v_wait BIGINT;
  DECLARE v_override_id BIGINT UNSIGNED;

  SELECT rate, `window`, period, period_offset, period_anchor, mode, lockout, concurrent, key_rule, overridden
    INTO v_rate, v_window, v_period, v_offset, v_anchor, v_mode, v_lockout, v_concurrent, v_key_rule, v_overridden
    FROM zone_master
   WHERE id = p_zone_id;
  -- In a zone of addresses a key that stands in the place of an erased one has its own form.
  CALL validate_bucket(p_zone_id, p_bucket_key, v_key_rule,
    IF(v_key_rule LIKE 'ip/%' AND p_bucket_key LIKE 'erased:%', v_key_rule, NULL));
  /*M! IF @@secure_timestamp = 'NO' THEN */ SET timestamp = DEFAULT; /*M! END IF; */
  SET v_now = UTC_TIMESTAMP(6);
  CALL judge_bucket(p_zone_id, p_bucket_key, v_now, FALSE, v_mode, v_lockout, v_concurrent, v_key_rule, v_overridden,
    v_offset, v_rate, v_window, v_period, v_anchor, v_velocity, v_oldest, v_since, v_until, v_wait, v_counts,
    v_locked_until, v_override_id, v_action, v_reason);
  SELECT p_zone_id AS zone_id,
         p_bucket_key AS bucket_key,
         v_mode AS mode,
         v_rate AS rate,
         v_window AS `window`,
         v_velocity AS velocity,
         IF(v_wait > 0 AND v_velocity IS NOT NULL, 0, v_rate - v_velocity) AS remaining,
         (v_wait + 999999) DIV 1000000 AS retry_after,
         v_locked_until AS locked_until,
         v_override_id AS override_id,
         v_action AS override_action,
         v_now AS checked_at,
         v_reason AS reason,
         COALESCE((TIMESTAMPDIFF(MICROSECOND, v_now, v_until) + 999999) DIV 1000000, 0) AS reset_after;
END
