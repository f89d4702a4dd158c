CREATE /*M! OR REPLACE */ PROCEDURE forget_buckets(
  INOUT p_position VARCHAR(512) CHARACTER SET utf8mb4,
  OUT   p_removed  BIGINT,
  OUT   p_more     BOOLEAN
)
COMMENT 'internal: deletes lock rows of buckets that nobody has asked for in a long time'
SQL SECURITY INVOKER
MODIFIES SQL DATA
BEGIN
  -- Called by retain_step, outside of a transaction. Looks at the next rows of zone_bucket_lock behind p_position, which
  -- is the id of their zone, a colon and a key, and deletes those that say nothing any more: the bucket is not locked,
  -- its last lockout makes the next one no longer, and it has no txn in a window of its zone or in the last day.
  -- A check cannot be misled: the row is deleted under its lock, and a session that waits for it then
  -- finds none and makes it anew.
  -- A row that a check holds stays. Of rows that stay it forgets the keys of imprints: see forget_imprints.
  DECLARE v_done, v_found BOOLEAN DEFAULT FALSE;
  DECLARE v_zone, v_decay BIGINT;
  DECLARE v_now, v_from DATETIME(6);
  DECLARE v_after, v_last, v_key VARCHAR(255) CHARACTER SET utf8mb4 COLLATE /*!80017 utf8mb4_0900_bin */ /*M! utf8mb4_nopad_bin */;
  DECLARE idle CURSOR FOR
    SELECT l.bucket_key
      FROM zone_bucket_lock AS l FORCE INDEX (PRIMARY)
     WHERE l.zone_id = v_zone
       AND l.bucket_key > v_after
       AND l.bucket_key <= v_last
       AND (l.locked_until IS NULL OR l.locked_until < v_now - INTERVAL v_decay SECOND)
       AND NOT EXISTS (
         SELECT 1
           FROM zone_txn AS t FORCE INDEX (zone_txn_window)
          WHERE t.zone_id = l.zone_id
            AND t.bucket_key = l.bucket_key
            AND t.counted IN (0, 1)
            AND t.created_at > v_from);
  DECLARE CONTINUE HANDLER FOR NOT FOUND SET v_done = TRUE;

  /*M! IF @@secure_timestamp = 'NO' THEN */ SET timestamp = DEFAULT; /*M! END IF; */
  SET v_now = UTC_TIMESTAMP(6), p_removed = 0, p_more = FALSE,
      v_zone = COALESCE(NULLIF(SUBSTRING_INDEX(p_position, ':', 1), ''), 0),
      v_after = SUBSTRING(p_position, LOCATE(':', p_position) + 1);
  SET TRANSACTION ISOLATION LEVEL READ COMMITTED;
  START TRANSACTION;
  SELECT MAX(bucket_key)
    INTO v_last
    FROM (SELECT bucket_key
            FROM zone_bucket_lock FORCE INDEX (PRIMARY)
           WHERE zone_id = v_zone
             AND bucket_key > v_after
           ORDER BY bucket_key
           LIMIT 250) AS following;
  IF v_last IS NULL THEN
    SELECT MIN(zone_id)
      INTO v_zone
      FROM zone_bucket_lock
     WHERE zone_id > v_zone;
    SET p_position = COALESCE(CONCAT(v_zone, ':'), ''), p_more = v_zone IS NOT NULL;
  ELSE
    -- A zone that is gone has rows as well.
    SELECT COALESCE(MAX(lockout_decay), 0),
           v_now - INTERVAL GREATEST(86400, COALESCE(MAX(`window`), 0), COALESCE(MAX(reserve_ttl), 0),
             (SELECT COALESCE(MAX(o.`window`), 0) FROM zone_override AS o WHERE o.zone_id = v_zone)) SECOND
      INTO v_decay, v_from
      FROM zone_master
     WHERE id = v_zone;
    OPEN idle;
    the_buckets: LOOP
      FETCH idle INTO v_key;
      IF v_done THEN
        LEAVE the_buckets;
      END IF;
      SELECT COUNT(*)
        INTO v_found
        FROM zone_bucket_lock
       WHERE zone_id = v_zone
         AND bucket_key = v_key
         AND (locked_until IS NULL OR locked_until < v_now - INTERVAL v_decay SECOND)
         FOR UPDATE SKIP LOCKED;
      -- A check that had the lock before may have recorded something since.
      IF v_found THEN
        SELECT COUNT(*) = 0
          INTO v_found
          FROM (SELECT 1
                  FROM zone_txn FORCE INDEX (zone_txn_window)
                 WHERE zone_id = v_zone
                   AND bucket_key = v_key
                   AND counted IN (0, 1)
                   AND created_at > v_from
                 LIMIT 1) AS one;
      END IF;
      IF v_found THEN
        DELETE FROM zone_bucket_lock
         WHERE zone_id = v_zone
           AND bucket_key = v_key;
        SET p_removed = p_removed + 1;
      END IF;
    END LOOP;
    CLOSE idle;
    CALL forget_imprints(v_zone, v_after, v_last, v_now);
    SET p_position = CONCAT(v_zone, ':', v_last), p_more = TRUE;
  END IF;
  COMMIT AND NO CHAIN NO RELEASE;
END
