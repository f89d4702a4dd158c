-- What check_velocity would find, without an attempt: consumes nothing, takes no
-- lock and creates no row. Answers with one row, the same for a key that was
-- never seen as for an idle one:
--   zone_id, bucket_key, mode, rate, window, velocity, remaining, retry_after,
--   locked_until, override_id, override_action, checked_at
-- remaining and retry_after are what the next attempt would meet if the zone were
-- enforced. The bucket may have moved on by the time the answer arrives. Error
-- 45404 for a zone that does not exist.
CREATE PROCEDURE peek_velocity(
  IN p_zone_id    INT,
  IN p_bucket_key VARCHAR(256) CHARACTER SET utf8mb4 COLLATE /*!80017 utf8mb4_0900_bin */ /*M! utf8mb4_nopad_bin */
)
SQL SECURITY DEFINER
READS SQL DATA
BEGIN
  DECLARE v_rate           INT DEFAULT NULL;
  DECLARE v_window         INT;
  DECLARE v_mode           VARCHAR(8) CHARACTER SET ascii;
  DECLARE v_lockout        BIGINT;
  DECLARE v_lockout_factor DECIMAL(5,2);
  DECLARE v_lockout_max    BIGINT;
  DECLARE v_lockout_decay  INT;
  DECLARE v_key_rule       VARCHAR(16) CHARACTER SET ascii DEFAULT NULL;
  DECLARE v_narrowed_at    DATETIME(6);
  DECLARE v_overridden     BOOLEAN;
  DECLARE v_steady         BOOLEAN;
  DECLARE v_locked_until   DATETIME(6) DEFAULT NULL;
  DECLARE v_lockout_us     BIGINT DEFAULT 0;
  DECLARE v_override_id    BIGINT UNSIGNED DEFAULT NULL;
  DECLARE v_action         VARCHAR(8) CHARACTER SET ascii DEFAULT NULL;
  DECLARE v_own_rate       INT;
  DECLARE v_own_window     INT;
  DECLARE v_expires_at     DATETIME(6);
  DECLARE v_now            DATETIME(6);
  DECLARE v_velocity       INT;
  DECLARE v_oldest         DATETIME(6);
  DECLARE v_wait           BIGINT;
  DECLARE v_counts         BOOLEAN; -- of no interest here
  DECLARE v_shown_mode     VARCHAR(8) CHARACTER SET ascii;
  DECLARE v_locked_now     DATETIME(6);
  DECLARE v_message        VARCHAR(128);
  DECLARE CONTINUE HANDLER FOR NOT FOUND BEGIN END;

  IF p_bucket_key IS NULL OR CHAR_LENGTH(p_bucket_key) NOT BETWEEN 1 AND 255 THEN
    SIGNAL SQLSTATE '45000'
      SET MYSQL_ERRNO = 45400, MESSAGE_TEXT = 'bucket_key must be 1 to 255 characters';
  END IF;

  SELECT rate, `window`, mode, lockout, key_rule, overridden, narrowed_at
    INTO v_rate, v_window, v_mode, v_lockout, v_key_rule, v_overridden, v_narrowed_at
    FROM zone_master
   WHERE id = p_zone_id;
  IF v_rate IS NULL THEN
    SET v_message = CONCAT('zone ', COALESCE(p_zone_id, 'NULL'), ' does not exist');
    SIGNAL SQLSTATE '45000' SET MYSQL_ERRNO = 45404, MESSAGE_TEXT = v_message;
  END IF;
  SET v_shown_mode = v_mode, v_mode = 'enforce';
  SET v_now = UTC_TIMESTAMP(6);
  SELECT locked_until, lockout_us
    INTO v_locked_until, v_lockout_us
    FROM zone_bucket_lock
   WHERE zone_id = p_zone_id
     AND bucket_key = p_bucket_key;
  IF v_lockout > 0 AND v_locked_until > v_now THEN
    SET v_locked_now = v_locked_until;
  END IF;
  SET v_steady = NOT v_overridden AND v_narrowed_at < v_now - INTERVAL v_window SECOND;

  IF v_overridden AND v_mode <> 'off' THEN
    CALL find_override(p_zone_id, p_bucket_key, v_key_rule LIKE 'ip%', v_now,
      v_override_id, v_action, v_own_rate, v_own_window, v_expires_at);
    IF v_action = 'limit' THEN
      SET v_rate = v_own_rate, v_window = v_own_window;
    END IF;
  END IF;

  -- A bucket of a zone that was neither narrowed nor overridden for a whole window
  -- cannot hold more than `rate` counted txns, so a plain count is bounded.
  IF v_steady THEN
    SELECT COUNT(*), MIN(created_at)
      INTO v_velocity, v_oldest
      FROM zone_txn
     WHERE zone_id = p_zone_id
       AND bucket_key = p_bucket_key
       AND counted = TRUE
       AND created_at > v_now - INTERVAL v_window SECOND;
  END IF;
  -- Else never more than `rate` index entries, whatever the history: a plain count
  -- would read millions after a DBA made a busy zone's window longer. When they
  -- are `rate`, the bucket is full until the oldest of them leaves the window.
  -- Txns later than v_now, left by a clock that stepped back, count too.
  IF NOT v_steady OR v_velocity > v_rate THEN
    SELECT COUNT(*), MIN(newest.created_at)
      INTO v_velocity, v_oldest
      FROM (
        SELECT created_at
          FROM zone_txn
         WHERE zone_id = p_zone_id
           AND bucket_key = p_bucket_key
           AND counted = TRUE
           AND created_at > v_now - INTERVAL v_window SECOND
         ORDER BY created_at DESC
         LIMIT v_rate
      ) AS newest;
  END IF;

  -- How long until an attempt would pass, in microseconds; 0 is now.
  SET v_wait = 0;
  IF v_velocity >= v_rate OR v_lockout > 0 OR v_overridden OR v_mode = 'off' THEN
    CASE
      WHEN v_mode = 'off' OR v_action = 'allow' THEN
        SET v_counts = FALSE;
      WHEN v_action = 'deny' THEN
        SET v_wait = COALESCE(TIMESTAMPDIFF(MICROSECOND, v_now, v_expires_at), v_window * 1000000);
      WHEN v_velocity < v_rate AND (v_lockout = 0 OR v_locked_until IS NULL OR v_locked_until <= v_now) THEN
        BEGIN END; -- room
      ELSE
        IF v_velocity >= v_rate THEN
          -- A rate of 0 has no oldest txn: its window.
          SET v_wait = COALESCE(
            TIMESTAMPDIFF(MICROSECOND, v_now, v_oldest + INTERVAL v_window SECOND), v_window * 1000000);
        END IF;
        IF v_lockout > 0 THEN
          IF v_locked_until IS NULL OR v_locked_until <= v_now THEN
            -- Found full: it would lock the bucket, for longer than the last
            -- time if that was not long ago.
            SELECT lockout_factor, lockout_max, lockout_decay
              INTO v_lockout_factor, v_lockout_max, v_lockout_decay
              FROM zone_master
             WHERE id = p_zone_id;
            SET v_lockout_us = LEAST(v_lockout_max * 1000000,
              IF(v_lockout_us > 0 AND v_now <= v_locked_until + INTERVAL v_lockout_decay SECOND,
                 FLOOR(v_lockout_us * v_lockout_factor),
                 v_lockout * 1000000));
            SET v_locked_until = v_now + INTERVAL v_lockout_us MICROSECOND;
          END IF;
          SET v_wait = GREATEST(v_wait, TIMESTAMPDIFF(MICROSECOND, v_now, v_locked_until));
        END IF;
    END CASE;
  END IF;

  SELECT p_zone_id AS zone_id,
         p_bucket_key AS bucket_key,
         v_shown_mode AS mode,
         v_rate AS rate,
         v_window AS `window`,
         LEAST(v_velocity, v_rate) AS velocity,
         IF(v_wait > 0, 0, v_rate - LEAST(v_velocity, v_rate)) AS remaining,
         (v_wait + 999999) DIV 1000000 AS retry_after,
         v_locked_now AS locked_until,
         v_override_id AS override_id,
         v_action AS override_action,
         v_now AS checked_at;
END
