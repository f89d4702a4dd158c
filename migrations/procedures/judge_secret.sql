CREATE /*M! OR REPLACE */ PROCEDURE judge_secret(
  IN  p_zone_id       INT,
  IN  p_bucket_key    VARCHAR(256) CHARACTER SET utf8mb4 COLLATE /*!80017 utf8mb4_0900_bin */ /*M! utf8mb4_nopad_bin */,
  IN  p_now           DATETIME(6),
  IN  p_mode          VARCHAR(8) CHARACTER SET ascii,
  IN  p_key_rule      VARCHAR(32) CHARACTER SET ascii,
  IN  p_is_overridden BOOLEAN,
  IN  p_offset        INT,
  IN  p_rate          INT,
  IN  p_window        INT,
  IN  p_period        VARCHAR(8) CHARACTER SET ascii,
  IN  p_anchor        INT,
  IN  p_secret_hash   VARCHAR(65) CHARACTER SET utf8mb4,
  OUT p_imprint       BINARY(16),
  OUT p_repeats       BOOLEAN
)
COMMENT 'internal: called by decide_check'
SQL SECURITY INVOKER
MODIFIES SQL DATA
BEGIN
  -- Finds out whether a secret was tried before by an attempt that counts: p_repeats. p_imprint is its hash for the bucket,
  -- or NULL where attempts do not count. The settings p_mode to p_anchor are the zone's.
  DECLARE v_velocity INT;
  DECLARE v_oldest, v_since, v_until, v_locked_until DATETIME(6);
  DECLARE v_wait BIGINT;
  DECLARE v_counts BOOLEAN;
  DECLARE v_override_id BIGINT UNSIGNED;
  DECLARE v_action VARCHAR(8) CHARACTER SET ascii;
  DECLARE v_reason VARCHAR(10) CHARACTER SET ascii;
  SET p_repeats = FALSE;
  CALL judge_bucket(p_zone_id, p_bucket_key, p_now, FALSE, p_mode, 0, 0, p_key_rule, p_is_overridden, p_offset,
    p_rate, p_window, p_period, p_anchor, v_velocity, v_oldest, v_since, v_until, v_wait, v_counts,
    v_locked_until, v_override_id, v_action, v_reason);
  IF v_counts THEN
    CALL find_imprint(p_zone_id, p_bucket_key, p_now, v_since, p_secret_hash, p_imprint, p_repeats);
  END IF;
END
