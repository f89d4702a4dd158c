CREATE /*M! OR REPLACE */ PROCEDURE judge_bucket(
  IN    p_zone_id        INT,
  IN    p_bucket_key     VARCHAR(256) CHARACTER SET utf8mb4 COLLATE /*!80017 utf8mb4_0900_bin */ /*M! utf8mb4_nopad_bin */,
  IN    p_now            DATETIME(6),
  IN    p_is_attempt     BOOLEAN,
  IN    p_mode           VARCHAR(8) CHARACTER SET ascii,
  IN    p_lockout        INT,
  IN    p_concurrent     INT,
  IN    p_key_rule       VARCHAR(32) CHARACTER SET ascii,
  IN    p_is_overridden  BOOLEAN,
  IN    p_offset         INT,
  INOUT p_rate           INT,
  INOUT p_window         INT,
  INOUT p_period         VARCHAR(8) CHARACTER SET ascii,
  INOUT p_anchor         INT,
  INOUT p_velocity       INT,
  INOUT p_oldest         DATETIME(6),
  OUT   p_since          DATETIME(6),
  OUT   p_until          DATETIME(6),
  OUT   p_wait           BIGINT,
  OUT   p_counts         BOOLEAN,
  OUT   p_locked_until   DATETIME(6),
  OUT   p_override_id    BIGINT UNSIGNED,
  OUT   p_action         VARCHAR(8) CHARACTER SET ascii,
  OUT   p_reason         VARCHAR(10) CHARACTER SET ascii
)
COMMENT 'internal: the rule for one bucket'
SQL SECURITY INVOKER
MODIFIES SQL DATA
BEGIN
  -- Called by check_velocity_by_rule, decide_check and peek_velocity. Judges one bucket at p_now. p_mode to p_offset are the
  -- zone's. For an attempt (p_is_attempt) the caller holds the bucket's lock, and has read the zone and then the clock
  -- under it; one that finds the bucket full begins a lockout. Nothing else is changed. service.Decide is the same rule in Go.
  --   p_rate to p_anchor:   in: the zone's limit; out: an override's, if it limits
  --   p_velocity, p_oldest: in: the count of txns by the zone's limit and the time of the
  --                         oldest, or NULL if the caller has not counted; out: at most p_rate,
  --                         or NULL where no limit decides
  --   p_since, p_until:     txns after p_since count; end of the period, NULL if the limit slides or none decides
  --   p_wait:               microseconds until an attempt would pass; 0: it passes now
  --   p_counts:             an attempt that passes takes one of the bucket's places
  --   p_locked_until:       the end of a lockout that began before this attempt and locks, or NULL
  --   p_override_id, p_action: of the override in force, or NULL
  --   p_reason:             why p_wait is not 0: full, locked, lockout (one begins now), denied or concurrent
  DECLARE v_own_rate, v_own_window, v_own_anchor INT;
  DECLARE v_expires_at, v_last_end, v_ignored, v_leaves DATETIME(6);
  DECLARE v_lockout_us BIGINT;

  IF p_is_overridden AND p_mode <> 'off' THEN
    CALL find_override(p_zone_id, p_bucket_key, p_key_rule LIKE 'ip%', p_now,
      p_override_id, p_action, v_own_rate, v_own_window, v_own_anchor, v_expires_at);
    IF p_action = 'limit' THEN
      SET p_rate = v_own_rate, p_window = COALESCE(v_own_window, p_window), p_anchor = COALESCE(v_own_anchor, p_anchor),
          p_period = IF(v_own_window IS NULL, p_period, 'none'), p_velocity = NULL;
    END IF;
  END IF;

  SET p_since = p_now - INTERVAL p_window SECOND, p_until = NULL;
  IF p_period <> 'none' THEN
    CALL find_period(p_now, p_window, p_period, p_offset, p_anchor, p_since, p_until);
  END IF;
  SET p_wait = 0, p_counts = p_mode <> 'off' AND COALESCE(p_action = 'limit', TRUE);
  -- LIMIT bounds the count: a plain one would read millions after a DBA made a busy zone's window longer. If p_rate are found, the
  -- bucket is full until the oldest of these leaves. Txns later than p_now, which a clock that was set back has left, count too.
  IF NOT p_counts THEN
    SET p_velocity = NULL, p_until = NULL;
  ELSEIF p_velocity IS NULL OR p_velocity > p_rate THEN
    SELECT COUNT(*), MIN(newest.created_at)
      INTO p_velocity, p_oldest
      FROM (
        SELECT created_at
          FROM zone_txn
         WHERE zone_id = p_zone_id
           AND bucket_key = p_bucket_key
           AND counted = TRUE
           AND created_at > p_since
         ORDER BY created_at DESC
         LIMIT p_rate
      ) AS newest;
  END IF;

  IF p_action = 'deny' THEN
    SET p_wait = COALESCE(TIMESTAMPDIFF(MICROSECOND, p_now, v_expires_at), p_window * 1000000), p_reason = 'denied';
  END IF;
  IF p_counts AND p_velocity >= p_rate THEN
    SET v_leaves = p_oldest + INTERVAL p_window SECOND;
    IF p_period <> 'none' AND p_oldest IS NOT NULL THEN
      CALL find_period(p_oldest, p_window, p_period, p_offset, p_anchor, v_ignored, v_leaves);
    END IF;
    -- With a rate of 0 there is no oldest txn: the answer is the window.
    SET p_wait = COALESCE(TIMESTAMPDIFF(MICROSECOND, p_now, v_leaves), p_window * 1000000), p_reason = 'full';
  END IF;

  IF p_concurrent > 0 AND p_counts THEN
    CALL judge_open(p_zone_id, p_bucket_key, p_now, p_concurrent, p_wait, p_reason);
  END IF;

  IF p_lockout > 0 AND p_counts THEN
    -- Aggregates, as a SELECT … INTO without a row raises a condition (1329).
    SELECT MAX(locked_until), MAX(lockout_us)
      INTO v_last_end, v_lockout_us
      FROM zone_bucket_lock
     WHERE zone_id = p_zone_id
       AND bucket_key = p_bucket_key
       AND (lockout_shadow = FALSE OR p_mode <> 'enforce'); -- a lockout that began in a shadow blocks no attempt
    SET p_locked_until = IF(v_last_end > p_now, v_last_end, NULL);
    IF p_locked_until IS NOT NULL THEN
      SET p_wait = GREATEST(p_wait, TIMESTAMPDIFF(MICROSECOND, p_now, p_locked_until)), p_reason = 'locked';
    ELSEIF p_velocity >= p_rate THEN
      -- The bucket is full, so a lockout begins, longer than one that ended less than lockout_decay ago. If the zone's
      -- lockout was switched off after the caller read the zone, there is none.
      SELECT COALESCE(MAX(LEAST(lockout_max * 1000000,
               IF(v_lockout_us > 0 AND p_now <= v_last_end + INTERVAL lockout_decay SECOND,
                  FLOOR(v_lockout_us * lockout_factor),
                  lockout * 1000000))), 0)
        INTO v_lockout_us
        FROM zone_master
       WHERE id = p_zone_id
         AND lockout > 0;
      SET p_wait = GREATEST(p_wait, v_lockout_us), p_reason = IF(v_lockout_us > 0, 'lockout', p_reason);
      IF p_is_attempt AND v_lockout_us > 0 THEN
        UPDATE zone_bucket_lock
           SET locked_until = p_now + INTERVAL v_lockout_us MICROSECOND,
               lockout_us = v_lockout_us,
               lockout_shadow = p_mode <> 'enforce'
         WHERE zone_id = p_zone_id
           AND bucket_key = p_bucket_key;
      END IF;
    END IF;
  END IF;
END
