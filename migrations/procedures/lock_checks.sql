CREATE /*M! OR REPLACE */ PROCEDURE lock_checks(IN p_checks JSON, OUT p_zones LONGTEXT CHARACTER SET ascii)
COMMENT 'internal: called by check_velocity_batch'
SQL SECURITY INVOKER
MODIFIES SQL DATA
BEGIN
  -- Locks the buckets of every check whose zones all exist. p_zones becomes the list of these
  -- zones, such as '1,2'. A malformed argument is refused (45400, 45410) before any row is locked
  -- or made: sessions that wait for a new row deadlock when it is rolled back. A check that names
  -- an unknown zone is not locked here; decide_check refuses it alone. The caller's transaction,
  -- which has done nothing yet, ends here and begins anew.
  DECLARE v_done BOOLEAN DEFAULT FALSE;
  DECLARE v_problem VARCHAR(128) CHARACTER SET ascii;
  DECLARE v_locked INT;
  DECLARE v_zone_id, v_last_zone BIGINT DEFAULT 0;
  DECLARE v_key_rule VARCHAR(32) CHARACTER SET ascii;
  DECLARE v_key VARCHAR(256) CHARACTER SET utf8mb4 COLLATE /*!80017 utf8mb4_0900_bin */ /*M! utf8mb4_nopad_bin */;
  -- First the problems, then each bucket once, by zone_id and bucket_key. Every session locks in
  -- this order, so two batches with buckets in common wait for each other. MariaDB has answered 1213
  -- to one of two that make the same rows all the same, seldom.
  DECLARE wanted CURSOR FOR
    SELECT DISTINCT a.problem, a.zone_id, a.bucket_key, a.zone_rule
      FROM (
        SELECT n.zone_id, n.bucket_key, n.zone_rule, n.is_decidable,
               CASE
                 WHEN n.zone_id IS NULL OR n.buckets > 255
                   THEN CONCAT('check ', n.check_no - 1, ' must name at least one bucket and at most 255')
                 WHEN n.written NOT REGEXP '^-?[0-9]+\\z' -- an engine makes a number of 1.6 and of '1abc'
                   THEN 'zone_id must be a whole number'
                 WHEN n.attempt_id COLLATE utf8mb4_bin NOT REGEXP '^[ -~]{1,64}\\z'
                   THEN 'attempt_id must be 1 to 64 printable ASCII characters'
                 WHEN n.is_decidable AND COALESCE(CHAR_LENGTH(n.bucket_key), 0) NOT BETWEEN 1 AND 255
                   THEN 'bucket_key must be 1 to 255 characters'
                 WHEN n.key_rule <> n.zone_rule THEN 'a zone has another key_rule now'
               END AS problem
          FROM (
            SELECT c.check_no, c.attempt_id, b.zone_id, b.written, b.bucket_key, b.key_rule, z.key_rule AS zone_rule,
                   MIN(z.id IS NOT NULL) OVER (PARTITION BY c.check_no) AS is_decidable,
                   COUNT(*) OVER (PARTITION BY c.check_no) AS buckets
              FROM JSON_TABLE(p_checks, '$[*]' COLUMNS (
                     check_no FOR ORDINALITY,
                     attempt_id VARCHAR(65) CHARACTER SET utf8mb4 PATH '$.attempt_id' ERROR ON ERROR,
                     buckets JSON PATH '$.buckets')) AS c
              LEFT JOIN JSON_TABLE(c.buckets, '$[*]' COLUMNS (
                     zone_id BIGINT PATH '$.zone_id',
                     written VARCHAR(32) CHARACTER SET utf8mb4 PATH '$.zone_id',
                     bucket_key VARCHAR(256) CHARACTER SET utf8mb4 COLLATE /*!80017 utf8mb4_0900_bin */ /*M! utf8mb4_nopad_bin */ PATH '$.bucket_key',
                     key_rule VARCHAR(32) CHARACTER SET ascii PATH '$.key_rule' ERROR ON ERROR)) AS b ON TRUE
              LEFT JOIN zone_master AS z ON z.id = b.zone_id
          ) AS n
      ) AS a
     WHERE a.is_decidable OR a.problem IS NOT NULL
     ORDER BY a.problem DESC, a.zone_id, a.bucket_key;
  DECLARE CONTINUE HANDLER FOR NOT FOUND SET v_done = TRUE;

  IF COALESCE(JSON_TYPE(p_checks), '') <> 'ARRAY' THEN
    SIGNAL SQLSTATE '45000'
      SET MYSQL_ERRNO = 45400, MESSAGE_TEXT = 'checks must be a JSON array of objects with buckets';
  END IF;
  SET p_zones = '';
  OPEN wanted; -- the cursor has its rows now
  -- A transaction keeps the metadata lock of each table that it has read. Who waits for a bucket must
  -- not have that of zone_master: who has the bucket reads zone_master next, and would wait behind a
  -- migration that waits for this session. No engine sees such a deadlock.
  COMMIT AND NO CHAIN NO RELEASE;
  SET TRANSACTION ISOLATION LEVEL READ COMMITTED;
  START TRANSACTION READ WRITE;
  the_locks: LOOP
    FETCH wanted INTO v_problem, v_zone_id, v_key, v_key_rule;
    IF v_done THEN
      LEAVE the_locks;
    END IF;
    IF v_problem LIKE '%key_rule%' THEN
      SIGNAL SQLSTATE '45000' SET MYSQL_ERRNO = 45410, MESSAGE_TEXT = v_problem;
    ELSEIF v_problem IS NOT NULL THEN
      SIGNAL SQLSTATE '45000' SET MYSQL_ERRNO = 45400, MESSAGE_TEXT = v_problem;
    END IF;
    SELECT COUNT(*)
      INTO v_locked
      FROM zone_bucket_lock
     WHERE zone_id = v_zone_id
       AND bucket_key = v_key
       FOR UPDATE;
    IF v_locked = 0 THEN
      CALL validate_bucket(v_zone_id, v_key, v_key_rule, NULL);
      /*M! SET check_constraint_checks = TRUE; */
      INSERT INTO zone_bucket_lock (zone_id, bucket_key)
      VALUES (v_zone_id, v_key)
      ON DUPLICATE KEY UPDATE zone_id = v_zone_id; -- as make_bucket does, which reads zone_master
    END IF;
    IF v_zone_id <> v_last_zone THEN
      SET v_last_zone = v_zone_id, p_zones = CONCAT_WS(',', NULLIF(p_zones, ''), v_zone_id);
    END IF;
  END LOOP;
  CLOSE wanted;
END
