-- Many checks in one CALL, one lock pass and one commit. The argument is an
-- array of checks, each with its buckets and, if the caller wants a retry to be
-- counted once, an attempt_id of 1 to 64 printable ASCII characters:
--   CALL check_velocity_batch('[{"buckets":[{"zone_id":1,"bucket_key":"alice"},
--                                          {"zone_id":2,"bucket_key":"203.0.113.9"}]},
--                               {"buckets":[{"zone_id":1,"bucket_key":"bob"}],
--                                "attempt_id":"3f6c"}]')
-- Checks are decided in array order. Each is all or nothing: blocked if any of
-- its buckets blocks, and then none of them is charged. The answer has one row
-- for each bucket of each check, positions counted from 0:
--   check_no, bucket_no, status, blocked, would_block, txn_id, rate, window,
--   velocity, remaining, retry_after, checked_at
-- blocked speaks of this bucket; the check is blocked if any of its rows is. In
-- a check that names a zone which does not exist the rows of such zones have
-- status 'unknown_zone', the others 'refused'; it records nothing, leaves no
-- lock row and harms no neighbour. A check whose attempt_id was used with other
-- buckets has status 'conflict' throughout, and records nothing. All other rows
-- have status 'decided', now or when the attempt_id was first seen.
--
-- A malformed argument is refused whole and records nothing: error 45400, or the
-- engine's own for text that is no JSON (MySQL 3140) and for a key with control
-- characters (CHECK constraint: MySQL 3819, MariaDB 4025). So is one with a
-- bucket whose key_rule, if given, is not the zone's: error 45410. Error 1062: an
-- attempt_id was used for other buckets at this very moment; call again.
-- It owns its transaction: call it outside of one (inside, error 1568).
CREATE PROCEDURE check_velocity_batch(IN p_checks JSON)
SQL SECURITY DEFINER
MODIFIES SQL DATA
BEGIN
  DECLARE v_in_tx     BOOLEAN DEFAULT FALSE;
  DECLARE v_committed BOOLEAN DEFAULT FALSE;
  DECLARE v_asked     INT;
  DECLARE v_wanted    INT;
  DECLARE v_locked    INT;
  DECLARE v_bad       BOOLEAN;
  DECLARE v_stale     BOOLEAN;
  DECLARE v_zones     LONGTEXT CHARACTER SET ascii;
  DECLARE v_keys      LONGTEXT CHARACTER SET ascii;
  DECLARE v_now       DATETIME(6);
  DECLARE v_verdicts  LONGTEXT CHARACTER SET utf8mb4 DEFAULT NULL;
  DECLARE v_first_id  BIGINT UNSIGNED;
  DECLARE v_ids       JSON;
  DECLARE v_answers   LONGTEXT CHARACTER SET ascii;
  DECLARE v_list_size BIGINT UNSIGNED DEFAULT @@SESSION.group_concat_max_len;
  DECLARE EXIT HANDLER FOR SQLEXCEPTION
  BEGIN
    SET SESSION group_concat_max_len = v_list_size;
    IF v_committed THEN
      RESIGNAL SET MYSQL_ERRNO = 45504; -- only the answer is lost
    -- A transaction of the caller's, refused with error 1568, stays as it was.
    ELSEIF v_in_tx THEN
      ROLLBACK;
    END IF;
    RESIGNAL;
  END;

  -- JSON that is no list of checks would otherwise be an empty one.
  IF COALESCE(JSON_TYPE(p_checks), '') <> 'ARRAY' THEN
    SIGNAL SQLSTATE '45000'
      SET MYSQL_ERRNO = 45400, MESSAGE_TEXT = 'checks must be a JSON array of objects with buckets';
  END IF;

  SET TRANSACTION ISOLATION LEVEL READ COMMITTED;
  START TRANSACTION;
  SET v_in_tx = TRUE;
  -- Lists of keys, which a session cuts at 1,024 bytes otherwise (MySQL).
  SET SESSION group_concat_max_len = 1000000000;

  -- All locks in one statement. To be locked are the buckets of the checks of
  -- which all zones exist, each once, in the order that all sessions keep:
  -- zone_id, bucket_key. So two batches with keys in common wait and never
  -- deadlock. FORCE INDEX: one lookup by key for each bucket, in that order; a
  -- scan of the table would lock all of it. The zones are read without a lock.
  SELECT COALESCE(SUM(k.asks), 0),
         COALESCE(SUM(k.decidable), 0),
         COUNT(l.zone_id),
         COALESCE(MAX(k.decidable AND COALESCE(CHAR_LENGTH(k.bucket_key), 0) NOT BETWEEN 1 AND 255), FALSE),
         COALESCE(MAX(k.stale), FALSE),
         COALESCE(GROUP_CONCAT(DISTINCT k.zone_id), ''),
         COALESCE(GROUP_CONCAT(IF(k.place MOD 500 = 1, CONCAT('"],[', k.zone_id, ',"'), ','),
           '_utf8mb4 0x', HEX(k.lock_key) ORDER BY k.zone_id, k.place SEPARATOR ''), '')
    INTO v_asked, v_wanted, v_locked, v_bad, v_stale, v_zones, v_keys
    FROM (
      SELECT c.zone_id,
             c.bucket_key,
             COUNT(*) AS asks,
             MAX(c.decidable) AS decidable,
             IF(MAX(c.decidable), c.bucket_key, NULL) AS lock_key,
             MAX(c.stale) AS stale,
             ROW_NUMBER() OVER (PARTITION BY c.zone_id, MAX(c.decidable) ORDER BY c.bucket_key) AS place
        FROM (
          SELECT b.zone_id,
                 b.bucket_key,
                 z.id IS NOT NULL AS known,
                 b.key_rule <> z.key_rule AS stale,
                 MIN(z.id IS NOT NULL) OVER (PARTITION BY b.check_no) AS decidable
            FROM JSON_TABLE(p_checks, '$[*]' COLUMNS (
                   check_no FOR ORDINALITY,
                   NESTED PATH '$.buckets[*]' COLUMNS (
                     zone_id    BIGINT PATH '$.zone_id',
                     bucket_key VARCHAR(256) CHARACTER SET utf8mb4
                       COLLATE /*!80017 utf8mb4_0900_bin */ /*M! utf8mb4_nopad_bin */
                       PATH '$.bucket_key',
                     key_rule   VARCHAR(16) CHARACTER SET ascii PATH '$.key_rule' ERROR ON ERROR)
                 )) AS b
            LEFT JOIN zone_master AS z ON z.id = b.zone_id
        ) AS c
       WHERE c.known
       GROUP BY c.zone_id, c.bucket_key
       ORDER BY c.zone_id, c.bucket_key
       LIMIT 1000000
    ) AS k
    LEFT JOIN zone_bucket_lock AS l FORCE INDEX (PRIMARY)
      ON l.zone_id = k.zone_id
     AND l.bucket_key = k.lock_key -- NULL finds no row: MySQL locks before it looks at other conditions
     FOR UPDATE;

  -- No row is made before it is known that the call will not be refused: those
  -- who wait for one that is rolled back would deadlock on the way up.
  IF v_bad THEN
    SIGNAL SQLSTATE '45000'
      SET MYSQL_ERRNO = 45400, MESSAGE_TEXT = 'bucket_key must be 1 to 255 characters';
  END IF;
  IF v_stale THEN
    SIGNAL SQLSTATE '45000'
      SET MYSQL_ERRNO = 45410, MESSAGE_TEXT = 'a zone has another key_rule by now';
  END IF;
  IF v_locked < v_wanted THEN
    -- First use of some: begin again, since new rows amidst locked ones would
    -- break the order, and lock old and new alike as check_velocity_keyed does.
    ROLLBACK;
    SET TRANSACTION ISOLATION LEVEL READ COMMITTED;
    START TRANSACTION;
    INSERT INTO zone_bucket_lock (zone_id, bucket_key)
    SELECT c.zone_id,
           c.bucket_key
      FROM (
        SELECT b.zone_id,
               b.bucket_key,
               MIN(FIND_IN_SET(b.zone_id, v_zones) > 0) OVER (PARTITION BY b.check_no) AS decidable
          FROM JSON_TABLE(p_checks, '$[*]' COLUMNS (
                 check_no FOR ORDINALITY,
                 NESTED PATH '$.buckets[*]' COLUMNS (
                   zone_id    BIGINT PATH '$.zone_id',
                   bucket_key VARCHAR(256) CHARACTER SET utf8mb4
                     COLLATE /*!80017 utf8mb4_0900_bin */ /*M! utf8mb4_nopad_bin */
                     PATH '$.bucket_key')
               )) AS b
      ) AS c
     WHERE c.decidable
     GROUP BY c.zone_id, c.bucket_key
     ORDER BY c.zone_id, c.bucket_key
        ON DUPLICATE KEY UPDATE zone_id = zone_bucket_lock.zone_id;
  END IF;

  -- In a statement of its own, once, when all locks are held.
  SET v_now = UTC_TIMESTAMP(6);

  -- For fewer it does not pay.
  IF v_asked >= 10 THEN
    CALL decide_together(p_checks, v_zones, CONCAT('[', SUBSTRING(v_keys, 4), '"]]'), v_now, v_verdicts, v_first_id, v_ids);
  END IF;
  IF v_verdicts IS NULL THEN
    CALL decide_in_turn(p_checks, v_zones, v_now, v_answers);
  END IF;
  COMMIT;
  SET v_committed = TRUE;
  SET SESSION group_concat_max_len = v_list_size;

  IF v_verdicts IS NOT NULL THEN
    SELECT v.check_no,
           v.bucket_no,
           'decided' AS status,
           v.flags & 10 = 10 AS blocked,
           v.flags & 2 > 0 AS would_block,
           IF(v_ids IS NULL, v_first_id + v.place - 1, CAST(JSON_EXTRACT(v_ids, CONCAT('$[', v.place - 1, ']')) AS UNSIGNED)) AS txn_id,
           v.rate,
           v.`window`,
           v.velocity,
           IF(v.flags & 2 > 0, 0, v.rate - v.velocity) AS remaining,
           IF(v.flags & 10 = 10, v.retry_after, 0) AS retry_after,
           v_now AS checked_at
      FROM JSON_TABLE(v_verdicts, '$[*]' COLUMNS (
             place FOR ORDINALITY,
             flags       INT PATH '$[0]',
             velocity    INT PATH '$[1]',
             retry_after BIGINT PATH '$[2]',
             rate        INT PATH '$[3]',
             `window`    INT PATH '$[4]',
             check_no    INT PATH '$[5]',
             bucket_no   INT PATH '$[6]')) AS v
     ORDER BY v.place;
  ELSE
    SELECT a.check_no, a.bucket_no, a.status, a.blocked, a.would_block, a.txn_id, a.rate, a.`window`,
           a.velocity, a.remaining, a.retry_after, COALESCE(a.checked_at, v_now) AS checked_at
      FROM JSON_TABLE(v_answers, '$[*]' COLUMNS (
             check_no    INT PATH '$[0]',
             bucket_no   INT PATH '$[1]',
             status      VARCHAR(16) PATH '$[2]',
             blocked     BOOLEAN PATH '$[3]',
             would_block BOOLEAN PATH '$[4]',
             txn_id      BIGINT UNSIGNED PATH '$[5]',
             rate        INT PATH '$[6]',
             `window`    INT PATH '$[7]',
             velocity    INT PATH '$[8]',
             remaining   INT PATH '$[9]',
             retry_after BIGINT PATH '$[10]',
             checked_at  DATETIME(6) PATH '$[11]')) AS a
     ORDER BY a.check_no, a.bucket_no;
  END IF;
END
