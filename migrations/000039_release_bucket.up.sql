-- An operator lets a bucket go: CALL release_bucket(zone_id, bucket_key, who, why)
-- ends its lockout, forgets how far lockouts had grown, and lets no txn count any
-- more that counts in its window. The release is recorded in zone_audit, with the
-- session's account beside who. Answers with one row: zone_id, bucket_key. A key
-- that was never seen gets no lock row. Error 45404 for a zone that does not
-- exist, 45400 for a key or why that is empty, or one of the three that is too
-- long. Call it outside of a transaction.
CREATE PROCEDURE release_bucket(
  IN p_zone_id    INT,
  IN p_bucket_key VARCHAR(256) CHARACTER SET utf8mb4 COLLATE /*!80017 utf8mb4_0900_bin */ /*M! utf8mb4_nopad_bin */,
  IN p_principal  VARCHAR(129) CHARACTER SET utf8mb4,
  IN p_reason     VARCHAR(256) CHARACTER SET utf8mb4
)
SQL SECURITY DEFINER
MODIFIES SQL DATA
BEGIN
  DECLARE v_in_tx   BOOLEAN DEFAULT FALSE;
  DECLARE v_locked  INT DEFAULT NULL;
  DECLARE v_now     DATETIME(6);
  DECLARE v_message VARCHAR(128);
  DECLARE CONTINUE HANDLER FOR NOT FOUND BEGIN END;
  DECLARE EXIT HANDLER FOR SQLEXCEPTION
  BEGIN
    IF v_in_tx THEN
      ROLLBACK;
    END IF;
    RESIGNAL;
  END;

  IF p_bucket_key IS NULL OR CHAR_LENGTH(p_bucket_key) NOT BETWEEN 1 AND 255
     OR CHAR_LENGTH(p_principal) > 128 OR COALESCE(CHAR_LENGTH(p_reason), 0) NOT BETWEEN 1 AND 255 THEN
    SIGNAL SQLSTATE '45000' SET MYSQL_ERRNO = 45400,
      MESSAGE_TEXT = 'bucket_key and why must be 1 to 255 characters, who at most 128';
  END IF;
  SET TRANSACTION ISOLATION LEVEL READ COMMITTED;
  START TRANSACTION;
  SET v_in_tx = TRUE;
  SELECT 1
    INTO v_locked
    FROM zone_bucket_lock
   WHERE zone_id = p_zone_id
     AND bucket_key = p_bucket_key
     FOR UPDATE;
  IF NOT EXISTS (SELECT 1 FROM zone_master WHERE id = p_zone_id) THEN
    SET v_message = CONCAT('zone ', COALESCE(p_zone_id, 'NULL'), ' does not exist');
    SIGNAL SQLSTATE '45000' SET MYSQL_ERRNO = 45404, MESSAGE_TEXT = v_message;
  END IF;
  -- Without a lock row there is something to release only if a cleaner took it.
  IF v_locked IS NULL
     AND EXISTS (SELECT 1 FROM zone_txn WHERE zone_id = p_zone_id AND bucket_key = p_bucket_key) THEN
    INSERT INTO zone_bucket_lock (zone_id, bucket_key)
    VALUES (p_zone_id, p_bucket_key)
    ON DUPLICATE KEY UPDATE zone_id = p_zone_id;
    SET v_locked = 1;
  END IF;
  SET v_now = UTC_TIMESTAMP(6);
  IF v_locked IS NOT NULL THEN
    CALL forget_counted(p_zone_id, p_bucket_key, v_now);
    UPDATE zone_bucket_lock
       SET locked_until = NULL,
           lockout_us = 0
     WHERE zone_id = p_zone_id
       AND bucket_key = p_bucket_key;
  END IF;
  INSERT INTO zone_audit (changed_at, changed_by, principal, subject, action, zone_id, state_after)
  VALUES (v_now, SESSION_USER(), p_principal, 'bucket', 'release', p_zone_id,
          JSON_OBJECT('bucket_key', p_bucket_key, 'reason', p_reason));
  COMMIT;
  SELECT p_zone_id AS zone_id,
         p_bucket_key AS bucket_key;
END
