-- Which checks of a batch name a bucket that another session holds at this
-- moment: one row for each, check_no counted from 0. The argument is that of
-- check_velocity_batch. It waits for nobody, and what it says may be over when it
-- is read. Call it outside of a transaction.
CREATE PROCEDURE find_held(IN p_checks JSON)
SQL SECURITY DEFINER
MODIFIES SQL DATA
BEGIN
  DECLARE v_in_tx BOOLEAN DEFAULT FALSE;
  DECLARE v_free  LONGTEXT CHARACTER SET utf8mb4;
  DECLARE EXIT HANDLER FOR SQLEXCEPTION
  BEGIN
    IF v_in_tx THEN
      ROLLBACK;
    END IF;
    RESIGNAL;
  END;
  SET TRANSACTION ISOLATION LEVEL READ COMMITTED;
  START TRANSACTION;
  SET v_in_tx = TRUE;
  SELECT JSON_ARRAYAGG(JSON_ARRAY(b.check_no, b.bucket_no))
    INTO v_free
    FROM (
      SELECT t.check_no, t.bucket_no, t.zone_id, t.bucket_key
        FROM JSON_TABLE(p_checks, '$[*]' COLUMNS (
               check_no FOR ORDINALITY,
               NESTED PATH '$.buckets[*]' COLUMNS (
                 bucket_no FOR ORDINALITY,
                 zone_id    BIGINT PATH '$.zone_id',
                 bucket_key VARCHAR(256) CHARACTER SET utf8mb4
                   COLLATE /*!80017 utf8mb4_0900_bin */ /*M! utf8mb4_nopad_bin */
                   PATH '$.bucket_key')
             )) AS t
       LIMIT 1000000
    ) AS b
   STRAIGHT_JOIN zone_bucket_lock AS l FORCE INDEX (PRIMARY)
      ON l.zone_id = b.zone_id
     AND l.bucket_key = b.bucket_key
     FOR UPDATE SKIP LOCKED;
  ROLLBACK;
  SET v_in_tx = FALSE;

  SELECT DISTINCT b.check_no - 1 AS check_no
    FROM JSON_TABLE(p_checks, '$[*]' COLUMNS (
           check_no FOR ORDINALITY,
           NESTED PATH '$.buckets[*]' COLUMNS (
             bucket_no FOR ORDINALITY,
             zone_id    BIGINT PATH '$.zone_id',
             bucket_key VARCHAR(256) CHARACTER SET utf8mb4
               COLLATE /*!80017 utf8mb4_0900_bin */ /*M! utf8mb4_nopad_bin */
               PATH '$.bucket_key')
         )) AS b
   STRAIGHT_JOIN zone_bucket_lock AS l FORCE INDEX (PRIMARY)
      ON l.zone_id = b.zone_id
     AND l.bucket_key = b.bucket_key
    LEFT JOIN (
      SELECT t.check_no, t.bucket_no
        FROM JSON_TABLE(COALESCE(v_free, '[]'), '$[*]' COLUMNS (
               check_no  INT PATH '$[0]',
               bucket_no INT PATH '$[1]')) AS t
       LIMIT 1000000
    ) AS f
      ON f.check_no = b.check_no
     AND f.bucket_no = b.bucket_no
   WHERE f.check_no IS NULL
   ORDER BY check_no;
END
