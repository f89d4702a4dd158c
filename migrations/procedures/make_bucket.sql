CREATE /*M! OR REPLACE */ PROCEDURE make_bucket(
  IN p_zone_id    INT,
  IN p_bucket_key VARCHAR(256) CHARACTER SET utf8mb4 COLLATE /*!80017 utf8mb4_0900_bin */ /*M! utf8mb4_nopad_bin */,
  IN p_key_rule   VARCHAR(16) CHARACTER SET ascii,
  IN p_waits      BOOLEAN
)
COMMENT 'internal: the lock of a bucket that has no row'
SQL SECURITY INVOKER
MODIFIES SQL DATA
BEGIN
  -- Makes and locks the row of a bucket whose row its caller could not lock: there was
  -- none, for it is the bucket's first use or a cleaner took it, or else, unless p_waits,
  -- another session holds it. A key that has a row is a good one. Errors, which leave no
  -- row: 45423 for a row that is held or in the making, 45400 for the key's length, those
  -- of refuse_zone, and the engine's own for control characters.
  DECLARE v_key_rule VARCHAR(16) CHARACTER SET ascii;
  DECLARE v_held     BOOLEAN DEFAULT FALSE;
  IF NOT p_waits THEN
    BEGIN
      DECLARE EXIT HANDLER FOR 3572, 1205 -- MySQL's number, and MariaDB's
        SET v_held = TRUE;
      -- A row that another session has made and not committed yet is seen by nobody but
      -- who asks for its lock. One that is free by now was held a moment ago.
      /*M! SET STATEMENT innodb_lock_wait_timeout = 0 FOR */
      SELECT COUNT(*)
        INTO v_held
        FROM zone_bucket_lock
       WHERE zone_id = p_zone_id
         AND bucket_key = p_bucket_key
         FOR UPDATE /*!80001 NOWAIT */;
    END;
  END IF;
  IF v_held THEN
    SIGNAL SQLSTATE '45000' SET MYSQL_ERRNO = 45423, MESSAGE_TEXT = 'another session holds the bucket';
  END IF;
  IF p_bucket_key IS NULL OR CHAR_LENGTH(p_bucket_key) NOT BETWEEN 1 AND 255 THEN
    SIGNAL SQLSTATE '45000'
      SET MYSQL_ERRNO = 45400, MESSAGE_TEXT = 'bucket_key must be 1 to 255 characters';
  END IF;
  -- Who waits for a new row that is rolled back would deadlock on the way up: what is
  -- going to be refused does not make one.
  SELECT MAX(key_rule)
    INTO v_key_rule
    FROM zone_master
   WHERE id = p_zone_id;
  IF v_key_rule IS NULL OR p_key_rule <> v_key_rule THEN
    CALL refuse_zone(p_zone_id, v_key_rule);
  END IF;
  /*M! SET check_constraint_checks = TRUE; */
  -- ON DUPLICATE KEY takes the exclusive lock whether the row is new or another session
  -- has just made it; INSERT IGNORE would take a shared one, and two sessions would
  -- deadlock on the way up. A tally that the other one has left is not known to the caller.
  INSERT INTO zone_bucket_lock (zone_id, bucket_key)
  VALUES (p_zone_id, p_bucket_key)
  ON DUPLICATE KEY UPDATE tally_until = NULL;
END
