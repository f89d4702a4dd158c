CREATE /*M! OR REPLACE */ PROCEDURE judge_bucket(
  IN    p_zone_id        INT,
  IN    p_bucket_key     VARCHAR(256) CHARACTER SET utf8mb4 COLLATE /*!80017 utf8mb4_0900_bin */ /*M! utf8mb4_nopad_bin */,
  IN    p_now            DATETIME(6),
  IN    p_is_attempt     BOOLEAN,
  IN    p_mode           VARCHAR(8) CHARACTER SET ascii,
  IN    p_lockout        INT,
  IN    p_key_rule       VARCHAR(16) CHARACTER SET ascii,
  IN    p_is_overridden  BOOLEAN,
  INOUT p_rate           INT,
  INOUT p_window         INT,
  INOUT p_velocity       INT,
  INOUT p_oldest         DATETIME(6),
  OUT   p_wait           BIGINT,
  OUT   p_counts         BOOLEAN,
  OUT   p_locked_until   DATETIME(6),
  OUT   p_override_id    BIGINT UNSIGNED,
  OUT   p_action         VARCHAR(8) CHARACTER SET ascii
)
COMMENT 'internal: the rule for one bucket'
SQL SECURITY INVOKER
MODIFIES SQL DATA
BEGIN
  -- The rule, for one bucket at p_now, with its zone's settings as they are. For an
  -- attempt the caller holds the bucket's lock, read the zone and then the clock under
  -- it, and a bucket that is found full begins its lockout. Else nothing changes.
  --   p_rate, p_window:     the zone's; those of an override that limits, after it
  --   p_velocity, p_oldest: txns that count in the zone's window and the first of them,
  --                         NULL if nobody counted yet; after it at most p_rate of them
  --   p_wait:               microseconds until an attempt would pass; 0 is now
  --   p_counts:             an attempt that passes takes a place
  --   p_locked_until:       the end of a lockout that stood already, or NULL
  DECLARE v_own_rate, v_own_window INT;
  DECLARE v_expires_at, v_last_end DATETIME(6);
  DECLARE v_lockout_us BIGINT;

  IF p_is_overridden AND p_mode <> 'off' THEN
    CALL find_override(p_zone_id, p_bucket_key, p_key_rule LIKE 'ip%', p_now,
      p_override_id, p_action, v_own_rate, v_own_window, v_expires_at);
    IF p_action = 'limit' THEN
      SET p_rate = v_own_rate, p_window = v_own_window, p_velocity = NULL;
    END IF;
  END IF;

  -- Never more than p_rate index entries, whatever the history: a plain count would
  -- read millions after a DBA made a busy zone's window longer. When they are p_rate,
  -- the bucket is full until the oldest of them leaves the window. Txns later than
  -- p_now, left by a clock that stepped back, count too.
  IF p_velocity IS NULL OR p_velocity > p_rate THEN
    SELECT COUNT(*), MIN(newest.created_at)
      INTO p_velocity, p_oldest
      FROM (
        SELECT created_at
          FROM zone_txn
         WHERE zone_id = p_zone_id
           AND bucket_key = p_bucket_key
           AND counted = TRUE
           AND created_at > p_now - INTERVAL p_window SECOND
         ORDER BY created_at DESC
         LIMIT p_rate
      ) AS newest;
  END IF;

  SET p_wait = 0, p_counts = p_mode <> 'off' AND COALESCE(p_action = 'limit', TRUE);
  IF p_action = 'deny' THEN
    SET p_wait = COALESCE(TIMESTAMPDIFF(MICROSECOND, p_now, v_expires_at), p_window * 1000000);
  END IF;
  IF p_counts AND p_velocity >= p_rate THEN
    -- A rate of 0 has no oldest txn: its window.
    SET p_wait = COALESCE(TIMESTAMPDIFF(MICROSECOND, p_now, p_oldest + INTERVAL p_window SECOND), p_window * 1000000);
  END IF;

  IF p_lockout > 0 THEN
    -- Counted, since no row at all would be a condition of its own (1329).
    SELECT MAX(locked_until), MAX(lockout_us)
      INTO v_last_end, v_lockout_us
      FROM zone_bucket_lock
     WHERE zone_id = p_zone_id
       AND bucket_key = p_bucket_key;
    SET p_locked_until = IF(v_last_end > p_now, v_last_end, NULL);
    IF p_counts AND p_locked_until IS NOT NULL THEN
      SET p_wait = GREATEST(p_wait, TIMESTAMPDIFF(MICROSECOND, p_now, p_locked_until));
    ELSEIF p_counts AND p_velocity >= p_rate THEN
      -- Found full: it is locked from now on, for longer than the last time if that
      -- was not long ago, unless the zone's lockouts were switched off meanwhile.
      SELECT COALESCE(MAX(LEAST(lockout_max * 1000000,
               IF(v_lockout_us > 0 AND p_now <= v_last_end + INTERVAL lockout_decay SECOND,
                  FLOOR(v_lockout_us * lockout_factor),
                  lockout * 1000000))), 0)
        INTO v_lockout_us
        FROM zone_master
       WHERE id = p_zone_id
         AND lockout > 0;
      SET p_wait = GREATEST(p_wait, v_lockout_us);
      IF p_is_attempt AND v_lockout_us > 0 THEN
        UPDATE zone_bucket_lock
           SET locked_until = p_now + INTERVAL v_lockout_us MICROSECOND,
               lockout_us = v_lockout_us
         WHERE zone_id = p_zone_id
           AND bucket_key = p_bucket_key;
      END IF;
    END IF;
  END IF;
END
