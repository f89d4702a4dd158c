-- What check_velocity does, for a caller that says by which rule it normalised
-- the key: if the zone has another key_rule by now, error 45410, and nothing is
-- decided or recorded. p_key_rule NULL asks nothing.
CREATE PROCEDURE check_velocity_keyed(
  IN p_zone_id    INT,
  -- One character longer than a key may be: a session without strict mode cuts
  -- an over-long argument, and the cut one must still be seen as too long.
  IN p_bucket_key VARCHAR(256) CHARACTER SET utf8mb4 COLLATE /*!80017 utf8mb4_0900_bin */ /*M! utf8mb4_nopad_bin */,
  IN p_key_rule   VARCHAR(16) CHARACTER SET ascii
)
SQL SECURITY DEFINER
MODIFIES SQL DATA
BEGIN
  -- Each declaration is a statement of its own at every call, so what few checks
  -- need is declared where they need it.
  DECLARE v_locked       INT; -- lock rows found; 2: one made now, by us or by another session
  DECLARE v_locked_until DATETIME(6);
  DECLARE v_rate         INT;
  DECLARE v_window       INT;
  DECLARE v_mode         VARCHAR(8) CHARACTER SET ascii;
  DECLARE v_lockout      INT;
  DECLARE v_key_rule     VARCHAR(16) CHARACTER SET ascii;
  DECLARE v_overridden   BOOLEAN;
  DECLARE v_narrowed_at  DATETIME(6);
  DECLARE v_now          DATETIME(6);
  DECLARE v_velocity     INT;
  DECLARE v_oldest       DATETIME(6);
  DECLARE v_wait         BIGINT DEFAULT 0;
  DECLARE v_counts       BOOLEAN DEFAULT TRUE;
  DECLARE v_blocked      BOOLEAN DEFAULT FALSE;

  -- READ COMMITTED: every statement after the lock wait sees what was committed
  -- during it, and there are no gap locks. Inside a transaction of the caller's
  -- this is error 1568, and that transaction stays as it was.
  SET TRANSACTION ISOLATION LEVEL READ COMMITTED;
  START TRANSACTION;
  BEGIN
    -- Error 1205 rolls back its statement only: without the ROLLBACK the pooled
    -- connection would keep the bucket's lock.
    DECLARE EXIT HANDLER FOR SQLEXCEPTION
    BEGIN
      ROLLBACK;
      RESIGNAL;
    END;

    -- The lock of the bucket: all that follows happens one at a time. Counted, since
    -- no row at all would be a condition of its own (1329).
    SELECT COUNT(*), MAX(locked_until)
      INTO v_locked, v_locked_until
      FROM zone_bucket_lock
     WHERE zone_id = p_zone_id
       AND bucket_key = p_bucket_key
       FOR UPDATE;
    IF v_locked = 0 THEN
      -- First use of the bucket, or a cleaner took its row. A key that has a row is
      -- a good one.
      IF p_bucket_key IS NULL OR CHAR_LENGTH(p_bucket_key) NOT BETWEEN 1 AND 255 THEN
        SIGNAL SQLSTATE '45000'
          SET MYSQL_ERRNO = 45400, MESSAGE_TEXT = 'bucket_key must be 1 to 255 characters';
      END IF;
      -- ON DUPLICATE KEY takes the exclusive lock whether the row is new or another
      -- session has just made it; INSERT IGNORE would take a shared one, and two
      -- sessions would deadlock on the way up. So would those who wait for a new row
      -- that is rolled back: what is going to be refused does not make one.
      SELECT key_rule
        INTO v_key_rule
        FROM zone_master
       WHERE id = p_zone_id;
      IF v_key_rule IS NOT NULL AND COALESCE(p_key_rule = v_key_rule, TRUE) THEN
        INSERT INTO zone_bucket_lock (zone_id, bucket_key)
        VALUES (p_zone_id, p_bucket_key)
        ON DUPLICATE KEY UPDATE zone_id = p_zone_id;
        SET v_locked = 2;
      END IF;
    END IF;

    -- The zone as it is now, not as it was before the wait; none without the lock:
    -- a zone that was created or got this key_rule only now has to wait for the next
    -- check.
    SELECT rate, `window`, mode, lockout, key_rule, overridden, narrowed_at
      INTO v_rate, v_window, v_mode, v_lockout, v_key_rule, v_overridden, v_narrowed_at
      FROM zone_master
     WHERE id = p_zone_id
       AND v_locked > 0;
    IF v_rate IS NULL OR p_key_rule <> v_key_rule THEN
      BEGIN
        DECLARE v_message VARCHAR(128);
        -- The zone is gone if its key_rule is not what keeps it from us.
        IF v_rate IS NULL AND COALESCE(p_key_rule = v_key_rule, TRUE) THEN
          SET v_message = CONCAT('zone ', COALESCE(p_zone_id, 'NULL'), ' does not exist');
          SIGNAL SQLSTATE '45000' SET MYSQL_ERRNO = 45404, MESSAGE_TEXT = v_message;
        END IF;
        SIGNAL SQLSTATE '45000'
          SET MYSQL_ERRNO = 45410, MESSAGE_TEXT = 'the zone has another key_rule by now';
      END;
    END IF;

    -- A statement that waited keeps the time at which it started, so the clock
    -- is read in one of its own, once, for counting and for created_at.
    SET v_now = UTC_TIMESTAMP(6);

    -- A bucket of a zone that was neither narrowed nor overridden for a whole window
    -- cannot hold more than `rate` counted txns, so a plain count is bounded.
    IF NOT v_overridden AND v_narrowed_at < v_now - INTERVAL v_window SECOND THEN
      SELECT COUNT(*), MIN(created_at)
        INTO v_velocity, v_oldest
        FROM zone_txn
       WHERE zone_id = p_zone_id
         AND bucket_key = p_bucket_key
         AND counted = TRUE
         AND created_at > v_now - INTERVAL v_window SECOND;
    END IF;
    -- All but room in a bucket that nothing else is known of. v_wait: how long until an
    -- attempt would pass, in microseconds; 0 is now.
    IF v_velocity IS NULL OR v_velocity >= v_rate OR v_mode = 'off'
       OR (v_lockout > 0 AND (v_locked_until > v_now OR v_locked = 2)) THEN
      BEGIN
        DECLARE v_override_id BIGINT UNSIGNED;
        DECLARE v_action      VARCHAR(8) CHARACTER SET ascii;
        DECLARE v_own_rate    INT;
        DECLARE v_own_window  INT;
        DECLARE v_expires_at  DATETIME(6);

        IF v_overridden AND v_mode <> 'off' THEN
          CALL find_override(p_zone_id, p_bucket_key, v_key_rule LIKE 'ip%', v_now,
            v_override_id, v_action, v_own_rate, v_own_window, v_expires_at);
          IF v_action = 'limit' THEN
            SET v_rate = v_own_rate, v_window = v_own_window;
          END IF;
        END IF;
        -- Never more than `rate` index entries, whatever the history: a plain count
        -- would read millions after a DBA made a busy zone's window longer. When they
        -- are `rate`, the bucket is full until the oldest of them leaves the window.
        -- Txns later than v_now, left by a clock that stepped back, count too.
        IF v_velocity IS NULL OR v_velocity > v_rate THEN
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

        CASE
          WHEN v_mode = 'off' OR v_action = 'allow' THEN
            SET v_counts = FALSE;
          WHEN v_action = 'deny' THEN
            SET v_wait = COALESCE(TIMESTAMPDIFF(MICROSECOND, v_now, v_expires_at), v_window * 1000000);
          ELSE
            IF v_velocity >= v_rate THEN
              -- A rate of 0 has no oldest txn: its window.
              SET v_wait = COALESCE(
                TIMESTAMPDIFF(MICROSECOND, v_now, v_oldest + INTERVAL v_window SECOND), v_window * 1000000);
            END IF;
            IF v_lockout > 0 THEN
              CALL lock_out(p_zone_id, p_bucket_key, v_now, v_velocity >= v_rate, v_locked_until);
              SET v_wait = GREATEST(v_wait, COALESCE(TIMESTAMPDIFF(MICROSECOND, v_now, v_locked_until), 0));
            END IF;
        END CASE;
        SET v_counts = v_counts AND v_wait = 0,
            v_blocked = v_wait > 0 AND v_mode = 'enforce';
      END;
    END IF;

    INSERT INTO zone_txn (created_at, zone_id, bucket_key, blocked, would_block, counted)
    VALUES (v_now, p_zone_id, p_bucket_key, v_blocked, v_wait > 0, v_counts);
    COMMIT;
  END;

  BEGIN
    -- The attempt is recorded; only the answer is lost.
    DECLARE EXIT HANDLER FOR SQLEXCEPTION
      RESIGNAL SET MYSQL_ERRNO = 45504;

    -- retry_after in whole seconds, rounded up; in integers, because / would first
    -- round to four decimals.
    SELECT v_blocked AS blocked,
           LAST_INSERT_ID() AS txn_id,
           p_zone_id AS zone_id,
           p_bucket_key AS bucket_key,
           v_rate AS rate,
           v_window AS `window`,
           IF(v_wait > 0, 0, v_rate - LEAST(v_velocity, v_rate) - v_counts) AS remaining,
           IF(v_blocked, (v_wait + 999999) DIV 1000000, 0) AS retry_after,
           v_now AS checked_at,
           v_wait > 0 AS would_block,
           LEAST(v_velocity, v_rate) + v_counts AS velocity;
  END;
END
