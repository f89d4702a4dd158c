CREATE /*M! OR REPLACE */ PROCEDURE lock_buckets(IN p_buckets JSON)
COMMENT 'internal: locks the buckets of a check, or of reports'
SQL SECURITY INVOKER
MODIFIES SQL DATA
BEGIN
  -- Called by decide_check and record_outcomes. Locks each bucket of an array such as
  -- '[{"zone_id":1,"bucket_key":"alice"}]', and makes the rows that are missing. Every session locks
  -- in the order of zone_id and bucket_key, so two calls with buckets in common wait for each other.
  -- MariaDB has answered 1213 to one of two that make the same rows all the same, seldom.
  --
  -- The caller's transaction, which has only read so far, ends here and begins anew. A transaction
  -- keeps the metadata lock of each table that it has read, and a session that waits for a bucket must
  -- have that of no other table: the session that has the bucket reads zone_master next, and would wait
  -- behind a migration that waits for this session. No engine sees such a deadlock.
  DECLARE v_done BOOLEAN DEFAULT FALSE;
  DECLARE v_zone_id, v_locked INT;
  DECLARE v_key VARCHAR(255) CHARACTER SET utf8mb4 COLLATE /*!80017 utf8mb4_0900_bin */ /*M! utf8mb4_nopad_bin */;
  DECLARE wanted CURSOR FOR
    SELECT DISTINCT b.zone_id, b.bucket_key
      FROM JSON_TABLE(p_buckets, '$[*]' COLUMNS (
             zone_id INT PATH '$.zone_id',
             bucket_key VARCHAR(255) CHARACTER SET utf8mb4 COLLATE /*!80017 utf8mb4_0900_bin */ /*M! utf8mb4_nopad_bin */
               PATH '$.bucket_key')) AS b
     ORDER BY b.zone_id, b.bucket_key;
  DECLARE CONTINUE HANDLER FOR NOT FOUND SET v_done = TRUE;

  IF p_buckets IS NULL THEN -- longer than max_allowed_packet
    SIGNAL SQLSTATE '45000' SET MYSQL_ERRNO = 45400, MESSAGE_TEXT = 'too many buckets for one call';
  END IF;
  COMMIT AND NO CHAIN NO RELEASE;
  SET TRANSACTION ISOLATION LEVEL READ COMMITTED;
  START TRANSACTION READ WRITE;
  /*M! SET check_constraint_checks = TRUE; */
  OPEN wanted;
  the_buckets: LOOP
    FETCH wanted INTO v_zone_id, v_key;
    IF v_done THEN
      LEAVE the_buckets;
    END IF;
    SELECT COUNT(*)
      INTO v_locked
      FROM zone_bucket_lock
     WHERE zone_id = v_zone_id
       AND bucket_key = v_key
       FOR UPDATE;
    IF v_locked = 0 THEN -- INSERTs that wait for a new row deadlock when it is rolled back, and reads do not
      INSERT INTO zone_bucket_lock (zone_id, bucket_key)
      VALUES (v_zone_id, v_key)
      ON DUPLICATE KEY UPDATE zone_id = v_zone_id; -- as make_bucket does
    END IF;
  END LOOP;
  CLOSE wanted;
END
