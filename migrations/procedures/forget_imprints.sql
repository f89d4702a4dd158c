CREATE /*M! OR REPLACE */ PROCEDURE forget_imprints(
  IN p_zone_id INT,
  IN p_after   VARCHAR(256) CHARACTER SET utf8mb4 COLLATE /*!80017 utf8mb4_0900_bin */ /*M! utf8mb4_nopad_bin */,
  IN p_last    VARCHAR(256) CHARACTER SET utf8mb4 COLLATE /*!80017 utf8mb4_0900_bin */ /*M! utf8mb4_nopad_bin */,
  IN p_now     DATETIME(6)
)
COMMENT 'internal: forgets the keys of imprints that count no more'
SQL SECURITY INVOKER
MODIFIES SQL DATA
BEGIN
  -- Called by forget_buckets. Forgets imprint_key of the buckets of a zone behind p_after and up to p_last whose
  -- imprint_until has passed: no secret can be compared with their imprints in zone_txn any more. A bucket that
  -- a check holds is left for the next time.
  DECLARE v_done, v_found BOOLEAN DEFAULT FALSE;
  DECLARE v_key VARCHAR(255) CHARACTER SET utf8mb4 COLLATE /*!80017 utf8mb4_0900_bin */ /*M! utf8mb4_nopad_bin */;
  DECLARE old CURSOR FOR
    SELECT bucket_key
      FROM zone_bucket_lock FORCE INDEX (PRIMARY)
     WHERE zone_id = p_zone_id
       AND bucket_key > p_after
       AND bucket_key <= p_last
       AND imprint_until < p_now;
  DECLARE CONTINUE HANDLER FOR NOT FOUND SET v_done = TRUE;

  OPEN old;
  the_buckets: LOOP
    FETCH old INTO v_key;
    IF v_done THEN
      LEAVE the_buckets;
    END IF;
    SELECT COUNT(*)
      INTO v_found
      FROM zone_bucket_lock
     WHERE zone_id = p_zone_id
       AND bucket_key = v_key
       AND imprint_until < p_now
       FOR UPDATE SKIP LOCKED;
    IF v_found THEN
      UPDATE zone_bucket_lock
         SET imprint_key = NULL,
             imprint_until = NULL
       WHERE zone_id = p_zone_id
         AND bucket_key = v_key;
    END IF;
  END LOOP;
  CLOSE old;
END
