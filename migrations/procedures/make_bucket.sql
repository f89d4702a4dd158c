CREATE /*M! OR REPLACE */ PROCEDURE make_bucket(
  IN p_zone_id    INT,
  IN p_bucket_key VARCHAR(256) CHARACTER SET utf8mb4 COLLATE /*!80017 utf8mb4_0900_bin */ /*M! utf8mb4_nopad_bin */,
  IN p_key_rule   VARCHAR(32) CHARACTER SET ascii,
  IN p_waits      BOOLEAN
)
COMMENT 'internal: the lock of a bucket that has no row'
SQL SECURITY INVOKER
MODIFIES SQL DATA
BEGIN
  -- Called by check_velocity_by_rule, if it found no row to lock. Either there is no row: it is the
  -- bucket's first use, or an operator deleted the row. Or, if p_waits is FALSE, another session holds
  -- it. Makes the row if need be, and locks it. The key is checked here alone, since the key of an
  -- existing row was checked before. Errors, which leave no row:
  --   45423  p_waits is FALSE, and another session holds the row or is making it
  --   45400, 45404, 45410  see validate_bucket
  --   3819, 4025  the key has control characters
  DECLARE v_key_rule VARCHAR(32) CHARACTER SET ascii;
  DECLARE v_held     BOOLEAN DEFAULT FALSE;
  IF NOT p_waits THEN
    BEGIN
      DECLARE EXIT HANDLER FOR 3572, 1205 -- MySQL's number, and MariaDB's
        SET v_held = TRUE;
      -- Only a locking read without SKIP LOCKED finds a row that another session has made and
      -- not committed. A row that is found free now was held a moment ago: v_held is 1 too.
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
  -- A check that will be refused must not make the row: sessions that wait for a new row
  -- deadlock when it is rolled back.
  SELECT MAX(key_rule)
    INTO v_key_rule
    FROM zone_master
   WHERE id = p_zone_id;
  CALL validate_bucket(p_zone_id, p_bucket_key, v_key_rule, p_key_rule);
  /*M! SET check_constraint_checks = TRUE; */
  -- ON DUPLICATE KEY UPDATE takes the exclusive lock whether the row is new or another session
  -- has just made it. INSERT IGNORE would take a shared lock, and two sessions that want to
  -- make it exclusive deadlock. A tally that the other session left is dropped, because the
  -- caller has not read it.
  INSERT INTO zone_bucket_lock (zone_id, bucket_key)
  VALUES (p_zone_id, p_bucket_key)
  ON DUPLICATE KEY UPDATE tally_until = NULL;
END
