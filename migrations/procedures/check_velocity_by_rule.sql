CREATE /*M! OR REPLACE */ PROCEDURE check_velocity_by_rule(
  IN p_zone_id    INT,
  -- One character longer than a key may be: a session without strict mode cuts it, and it must be seen as too long.
  IN p_bucket_key VARCHAR(256) CHARACTER SET utf8mb4 COLLATE /*!80017 utf8mb4_0900_bin */ /*M! utf8mb4_nopad_bin */,
  IN p_key_rule   VARCHAR(32) CHARACTER SET ascii,
  IN p_waits      BOOLEAN
)
COMMENT 'internal: check_velocity for a key that the service normalised'
SQL SECURITY DEFINER
MODIFIES SQL DATA
BEGIN
  -- Called by check_velocity and by the service. Decides and answers as check_velocity does. The service
  -- also names the rule by which it normalised the key: if the zone has another key_rule now, the call ends
  -- in error 45410 and nothing is decided or recorded. With p_key_rule NULL the key is looked at. If
  -- p_waits is FALSE and another session holds the bucket, the call ends in error 45423 at once.
  DECLARE v_locked, v_is_overridden, v_whole_rule, v_blocked BOOLEAN DEFAULT FALSE;
  DECLARE v_rate, v_window, v_offset, v_anchor, v_lockout, v_concurrent, v_velocity, v_record_blocked INT;
  DECLARE v_mode, v_action, v_period, v_reason VARCHAR(10) CHARACTER SET ascii;
  DECLARE v_key_rule VARCHAR(32) CHARACTER SET ascii;
  DECLARE v_locked_until, v_tally_until, v_narrowed_at, v_now, v_since, v_until, v_oldest DATETIME(6);
  DECLARE v_wait BIGINT DEFAULT 0; -- microseconds until an attempt would pass
  DECLARE v_counts BOOLEAN DEFAULT TRUE;
  DECLARE v_override_id BIGINT UNSIGNED; -- of the override that denies

  -- A session can choose the next AUTO_INCREMENT id by insert_id. A chosen 0 cannot be read
  -- there; it is found after the INSERT, when LAST_INSERT_ID() is still the 0 set here.
  IF @@insert_id <> 0 OR LAST_INSERT_ID(0) <> 0 THEN
    SIGNAL SQLSTATE '45000' SET MYSQL_ERRNO = 45400, MESSAGE_TEXT = 'insert_id must not be set in the session';
  END IF;
  -- READ COMMITTED: every statement after the lock wait sees the commits during it, and there are no gap
  -- locks. Inside a caller's transaction this is error 1568, and that transaction stays as it was.
  SET TRANSACTION ISOLATION LEVEL READ COMMITTED;
  START TRANSACTION READ WRITE;
  BEGIN
    -- Error 1205 rolls back its statement only: without the ROLLBACK the session would keep the bucket's lock.
    DECLARE EXIT HANDLER FOR SQLEXCEPTION
    BEGIN
      ROLLBACK AND NO CHAIN NO RELEASE;
      RESIGNAL;
    END;

    -- Locks the bucket. Aggregates, because a SELECT … INTO without a row raises a condition (1329).
    IF p_waits THEN
      SELECT COUNT(*), MAX(locked_until), MAX(tally_until)
        INTO v_locked, v_locked_until, v_tally_until
        FROM zone_bucket_lock
       WHERE zone_id = p_zone_id AND bucket_key = p_bucket_key
         FOR UPDATE;
    ELSE
      SELECT COUNT(*), MAX(locked_until), MAX(tally_until)
        INTO v_locked, v_locked_until, v_tally_until
        FROM zone_bucket_lock
       WHERE zone_id = p_zone_id AND bucket_key = p_bucket_key
         FOR UPDATE SKIP LOCKED;
    END IF;
    IF NOT v_locked THEN
      CALL make_bucket(p_zone_id, p_bucket_key, p_key_rule, p_waits);
    END IF;
    -- The zone as it is now, not as it was before the wait.
    SELECT rate, `window`, period, period_offset, period_anchor, mode, lockout, concurrent, key_rule, overridden, whole_rule,
           narrowed_at, record_blocked
      INTO v_rate, v_window, v_period, v_offset, v_anchor, v_mode, v_lockout, v_concurrent, v_key_rule, v_is_overridden, v_whole_rule,
           v_narrowed_at, v_record_blocked
      FROM zone_master
     WHERE id = p_zone_id;
    IF v_rate IS NULL OR COALESCE(p_key_rule, 'opaque') <> v_key_rule OR v_key_rule LIKE 'hmac/%' THEN
      CALL validate_bucket(p_zone_id, p_bucket_key, v_key_rule, p_key_rule);
    END IF;
    -- A statement that waited keeps the time at which it began. So the clock is read in a separate one, once.
    /*M! IF @@secure_timestamp = 'NO' THEN */ SET timestamp = DEFAULT; /*M! END IF; */
    SET v_now = UTC_TIMESTAMP(6);

    -- In a zone that was neither narrowed nor overridden for a whole window a plain count is bounded by v_rate. With
    -- concurrent or repeat_secret it is never enough.
    IF v_period = 'none' AND NOT v_whole_rule AND NOT v_is_overridden AND v_narrowed_at < v_now - INTERVAL v_window SECOND THEN
      SELECT COUNT(*), MIN(created_at)
        INTO v_velocity, v_oldest
        FROM zone_txn
       WHERE zone_id = p_zone_id
         AND bucket_key = p_bucket_key
         AND counted = TRUE
         AND created_at > v_now - INTERVAL v_window SECOND;
    END IF;
    -- The whole rule is asked unless the bucket plainly has room.
    IF v_velocity IS NULL OR v_velocity >= v_rate OR v_mode = 'off'
       OR (v_lockout > 0 AND (v_locked_until > v_now OR NOT v_locked)) THEN
      CALL judge_bucket(p_zone_id, p_bucket_key, v_now, TRUE, v_mode, v_lockout, v_concurrent, v_key_rule, v_is_overridden,
        v_offset, v_rate, v_window, v_period, v_anchor, v_velocity, v_oldest, v_since, v_until, v_wait, v_counts,
        v_locked_until, v_override_id, v_action, v_reason);
      SET v_override_id = IF(v_reason = 'denied', v_override_id, NULL), v_counts = v_counts AND v_wait = 0,
          v_blocked = v_wait > 0 AND v_mode = 'enforce';
    END IF;

    IF v_now <= v_tally_until THEN
      CALL forget_tally(p_zone_id, p_bucket_key, v_now); -- the clock was set back
    END IF;
    IF v_blocked AND v_record_blocked > 0 THEN
      CALL record_attempt(p_zone_id, p_bucket_key, v_now, v_since, TRUE, TRUE, FALSE, v_reason, v_override_id, NULL, NULL, NULL,
        NULL, v_locked);
    ELSE
      INSERT INTO zone_txn (created_at, zone_id, bucket_key, blocked, would_block, counted, reason, override_id)
      VALUES (v_now, p_zone_id, p_bucket_key, v_blocked, v_wait > 0, v_counts, v_reason, v_override_id);
    END IF;
    IF LAST_INSERT_ID() = 0 THEN
      SIGNAL SQLSTATE '45000' SET MYSQL_ERRNO = 45400, MESSAGE_TEXT = 'insert_id must not be set in the session';
    END IF;
    IF v_blocked AND v_reason = 'lockout' THEN
      CALL begin_lockout(p_zone_id, p_bucket_key, v_now, LAST_INSERT_ID());
    END IF;
    COMMIT AND NO CHAIN NO RELEASE;
  END;

  BEGIN
    -- The attempt is recorded; only the answer is lost.
    DECLARE EXIT HANDLER FOR SQLEXCEPTION
      RESIGNAL SET MYSQL_ERRNO = 45504;

    -- retry_after in whole seconds, rounded up; in integers, because / would first round to four decimals.
    SELECT v_blocked AS blocked, LAST_INSERT_ID() AS txn_id, p_zone_id AS zone_id, p_bucket_key AS bucket_key,
           v_rate AS rate, v_window AS `window`,
           IF(v_wait > 0 AND v_velocity IS NOT NULL, 0, v_rate - v_velocity - v_counts) AS remaining,
           IF(v_blocked, (v_wait + 999999) DIV 1000000, 0) AS retry_after,
           v_now AS checked_at, v_wait > 0 AS would_block, v_velocity + v_counts AS velocity,
           v_reason AS reason, v_override_id AS override_id,
           COALESCE((TIMESTAMPDIFF(MICROSECOND, v_now, v_until) + 999999) DIV 1000000, 0) AS reset_after;
  END;
END
