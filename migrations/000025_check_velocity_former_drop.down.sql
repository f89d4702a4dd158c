-- May this attempt go ahead? CALL check_velocity(zone_id, bucket_key) decides,
-- records the attempt, commits and answers with one row:
--   blocked, txn_id, zone_id, bucket_key, rate, window, remaining, retry_after,
--   checked_at
-- retry_after is in whole seconds, 0 unless blocked; checked_at is UTC.
--
-- It owns its transaction: call it outside of one (inside, error 1568). Errors:
-- 45404 for a zone that does not exist, 45400 for a bad key; neither records
-- anything or leaves a lock row.
CREATE PROCEDURE check_velocity(
  IN p_zone_id    INT,
  -- One character longer than a key may be: a session without strict mode cuts
  -- an over-long argument, and the cut one must still be seen as too long.
  IN p_bucket_key VARCHAR(256) CHARACTER SET utf8mb4 COLLATE /*!80017 utf8mb4_0900_bin */ /*M! utf8mb4_nopad_bin */
)
SQL SECURITY DEFINER
MODIFIES SQL DATA
BEGIN
  DECLARE v_in_tx    BOOLEAN DEFAULT FALSE;
  DECLARE v_locked   INT DEFAULT NULL;
  DECLARE v_rate     INT DEFAULT NULL;
  DECLARE v_window   INT DEFAULT NULL;
  DECLARE v_now      DATETIME(6);
  DECLARE v_velocity INT;
  DECLARE v_oldest   DATETIME(6) DEFAULT NULL;
  DECLARE v_blocked  BOOLEAN;
  DECLARE v_retry    INT DEFAULT 0;
  DECLARE v_message  VARCHAR(128);
  -- Error 1205 rolls back its statement only: without the ROLLBACK the pooled
  -- connection would keep the bucket's lock. A transaction of the caller's,
  -- refused with error 1568, stays as it was.
  DECLARE EXIT HANDLER FOR SQLEXCEPTION
  BEGIN
    IF v_in_tx THEN
      ROLLBACK;
    END IF;
    RESIGNAL;
  END;

  IF p_bucket_key IS NULL OR CHAR_LENGTH(p_bucket_key) NOT BETWEEN 1 AND 255 THEN
    SIGNAL SQLSTATE '45000'
      SET MYSQL_ERRNO = 45400, MESSAGE_TEXT = 'bucket_key must be 1 to 255 characters';
  END IF;

  -- READ COMMITTED: every statement after the lock wait sees what was committed
  -- during it, and there are no gap locks.
  SET TRANSACTION ISOLATION LEVEL READ COMMITTED;
  START TRANSACTION;
  SET v_in_tx = TRUE;
  -- The lock of the bucket: all that follows happens one at a time.
  SELECT 1
    INTO v_locked
    FROM zone_bucket_lock
   WHERE zone_id = p_zone_id
     AND bucket_key = p_bucket_key
     FOR UPDATE;
  -- First use of the bucket, or a cleaner took its row. ON DUPLICATE KEY takes
  -- the exclusive lock whether the row is new or another session has just made
  -- it; INSERT IGNORE would take a shared one, and two sessions would deadlock
  -- on the way up.
  IF v_locked IS NULL AND EXISTS (SELECT 1 FROM zone_master WHERE id = p_zone_id) THEN
    INSERT INTO zone_bucket_lock (zone_id, bucket_key)
    VALUES (p_zone_id, p_bucket_key)
    ON DUPLICATE KEY UPDATE zone_id = p_zone_id;
  END IF;

  -- The zone as it is now, not as it was before the wait.
  SELECT rate, `window`
    INTO v_rate, v_window
    FROM zone_master
   WHERE id = p_zone_id;
  IF v_rate IS NULL THEN
    SET v_message = CONCAT('zone ', COALESCE(p_zone_id, 'NULL'), ' does not exist');
    SIGNAL SQLSTATE '45000' SET MYSQL_ERRNO = 45404, MESSAGE_TEXT = v_message;
  END IF;

  -- A statement that waited keeps the time at which it started, so the clock
  -- is read in one of its own, once, for counting and for created_at.
  SET v_now = UTC_TIMESTAMP(6);

  -- Never more than `rate` index entries, whatever the history: a plain COUNT
  -- would read millions after a DBA made a busy zone's window longer. When they
  -- are `rate`, the bucket is full until the oldest of them leaves the window.
  -- Txns later than v_now, left by a clock that stepped back, count too.
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
  SET v_blocked = v_velocity >= v_rate;
  IF v_blocked THEN
    -- Whole seconds, rounded up; in integers, because / would first round to four
    -- decimals. A rate of 0 has no oldest txn: its window.
    SET v_retry = COALESCE(
      (TIMESTAMPDIFF(MICROSECOND, v_now, v_oldest + INTERVAL v_window SECOND) + 999999) DIV 1000000,
      v_window);
  END IF;

  INSERT INTO zone_txn (created_at, zone_id, bucket_key, blocked, exceeded, counted)
  VALUES (v_now, p_zone_id, p_bucket_key, v_blocked, v_blocked, NOT v_blocked);
  COMMIT;

  SELECT v_blocked AS blocked,
         LAST_INSERT_ID() AS txn_id,
         p_zone_id AS zone_id,
         p_bucket_key AS bucket_key,
         v_rate AS rate,
         v_window AS `window`,
         v_rate - v_velocity - (NOT v_blocked) AS remaining,
         v_retry AS retry_after,
         v_now AS checked_at;
END
