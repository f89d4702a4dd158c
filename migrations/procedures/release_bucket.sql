CREATE /*M! OR REPLACE */ PROCEDURE release_bucket(
  IN p_zone_id    INT,
  IN p_bucket_key VARCHAR(256) CHARACTER SET utf8mb4 COLLATE /*!80017 utf8mb4_0900_bin */ /*M! utf8mb4_nopad_bin */,
  IN p_principal  VARCHAR(129) CHARACTER SET utf8mb4,
  IN p_reason     VARCHAR(256) CHARACTER SET utf8mb4
)
COMMENT 'public: an operator ends the lockout of a bucket and frees its places'
SQL SECURITY DEFINER
MODIFIES SQL DATA
BEGIN
  -- Lets the next attempts of a bucket pass as if there had been none before:
  --   CALL release_bucket(1, 'alice', 'ann of support', 'forgot her password')
  -- The arguments are the zone's id, the key, the name of the asking person (NULL if unknown) and the
  -- reason. It ends the lockout, forgets how long lockouts had grown, and sets counted = FALSE for every
  -- txn that counts in the window. zone_audit records the release, with the account of the session beside
  -- the name. Answers with one row:
  --   zone_id, bucket_key
  -- A key that was never seen gets no lock row. Call it outside of a transaction. Errors:
  --   1568   it was called inside a transaction
  --   45404  the zone does not exist
  --   45400  the key or why is empty, one of the three is too long, the key is not as its
  --          zone writes keys (see validate_bucket), or the session has set insert_id
  -- It sets the session's timestamp to its default.
  DECLARE v_locked, v_window INT;
  DECLARE v_key_rule VARCHAR(32) CHARACTER SET ascii;
  DECLARE v_now DATETIME(6);
  IF p_bucket_key IS NULL OR CHAR_LENGTH(p_bucket_key) NOT BETWEEN 1 AND 255
     OR CHAR_LENGTH(p_principal) > 128 OR COALESCE(CHAR_LENGTH(p_reason), 0) NOT BETWEEN 1 AND 255 THEN
    SIGNAL SQLSTATE '45000' SET MYSQL_ERRNO = 45400,
      MESSAGE_TEXT = 'bucket_key and why must be 1 to 255 characters, who at most 128';
  END IF;
  IF @@insert_id <> 0 OR LAST_INSERT_ID(0) <> 0 THEN
    SIGNAL SQLSTATE '45000' SET MYSQL_ERRNO = 45400, MESSAGE_TEXT = 'insert_id must not be set in the session';
  END IF;
  SET TRANSACTION ISOLATION LEVEL READ COMMITTED;
  START TRANSACTION READ WRITE;
  BEGIN
    DECLARE EXIT HANDLER FOR SQLEXCEPTION
    BEGIN
      ROLLBACK AND NO CHAIN NO RELEASE;
      RESIGNAL;
    END;
    SELECT COUNT(*)
      INTO v_locked
      FROM zone_bucket_lock
     WHERE zone_id = p_zone_id
       AND bucket_key = p_bucket_key
       FOR UPDATE;
    -- A separate SELECT, because EXISTS in an IF would lock the zone's row.
    SELECT MAX(key_rule)
      INTO v_key_rule
      FROM zone_master
     WHERE id = p_zone_id;
    -- In a zone of addresses a key that stands in the place of an erased one has its own form.
    CALL validate_bucket(p_zone_id, p_bucket_key, v_key_rule,
      IF(v_key_rule LIKE 'ip/%' AND p_bucket_key LIKE 'erased:%', v_key_rule, NULL));
    /*M! IF @@secure_timestamp = 'NO' THEN */ SET timestamp = DEFAULT; /*M! END IF; */
    IF v_locked = 0 THEN
      -- Without a lock row there is something to release only if an operator deleted the row. Before the longest window
      -- no txn counts, so older partitions are not looked into.
      SELECT GREATEST(MAX(z.`window`), COALESCE(MAX(o.`window`), 0))
        INTO v_window
        FROM zone_master AS z
        LEFT JOIN zone_override AS o
          ON o.zone_id = z.id
       WHERE z.id = p_zone_id;
      SELECT COUNT(*)
        INTO v_locked
        FROM (SELECT 1
                FROM zone_txn
               WHERE zone_id = p_zone_id
                 AND bucket_key = p_bucket_key
                 AND counted = TRUE
                 AND created_at > UTC_TIMESTAMP(6) - INTERVAL v_window SECOND
               LIMIT 1) AS one;
      IF v_locked THEN
        INSERT INTO zone_bucket_lock (zone_id, bucket_key)
        VALUES (p_zone_id, p_bucket_key)
        ON DUPLICATE KEY UPDATE zone_id = p_zone_id;
      END IF;
    END IF;
    SET v_now = UTC_TIMESTAMP(6);
    IF v_locked THEN
      CALL uncount_bucket(p_zone_id, p_bucket_key, v_now);
      UPDATE zone_bucket_lock
         SET locked_until = NULL,
             lockout_us = 0
       WHERE zone_id = p_zone_id
         AND bucket_key = p_bucket_key;
      CALL release_lockout(p_zone_id, p_bucket_key, v_now);
    END IF;
    INSERT INTO zone_audit (changed_at, changed_by, principal, subject, action, zone_id, state_after)
    VALUES (v_now, SESSION_USER(), p_principal, 'bucket', 'release', p_zone_id,
            JSON_OBJECT('bucket_key', p_bucket_key, 'reason', p_reason));
    IF LAST_INSERT_ID() = 0 THEN
      SIGNAL SQLSTATE '45000' SET MYSQL_ERRNO = 45400, MESSAGE_TEXT = 'insert_id must not be set in the session';
    END IF;
    COMMIT AND NO CHAIN NO RELEASE;
  END;
  SELECT p_zone_id AS zone_id,
         p_bucket_key AS bucket_key;
END
