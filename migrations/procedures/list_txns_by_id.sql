CREATE /*M! OR REPLACE */ PROCEDURE list_txns_by_id(
  IN p_zone_id INT,
  IN p_since   DATETIME(6),
  IN p_until   DATETIME(6),
  IN p_limit   INT
)
COMMENT 'internal: called by list_txns'
SQL SECURITY INVOKER
READS SQL DATA
BEGIN
  -- Answers with the newest p_limit txns of a zone, or of all if p_zone_id is NULL, from p_since until before p_until.
  -- It counts them in growing ranges of ids, highest first, until there are enough. Ranges are read forwards, and
  -- sorted afterwards: engines lose rows when they read an index backwards.
  DECLARE v_low, v_first, v_last, v_highest BIGINT UNSIGNED;
  DECLARE v_width BIGINT UNSIGNED DEFAULT 4 * p_limit;
  DECLARE v_found INT DEFAULT 0;

  CALL first_txn_since(p_since, v_low);
  SELECT COALESCE(MAX(id), 0)
    INTO v_highest
    FROM zone_txn;
  IF p_until < UTC_TIMESTAMP(6) THEN
    -- A range that begins 1,000 ids too early ends before this one.
    CALL first_txn_since(p_until + INTERVAL 4 MINUTE, v_last);
    SET v_highest = LEAST(v_highest, v_last + 1000);
  END IF;
  SET v_first = v_highest + 1;
  WHILE v_found < p_limit AND v_first > v_low DO
    SET v_last = v_first - 1,
        v_first = IF(v_low + v_width < v_first, v_first - v_width, v_low),
        v_width = v_width * 4;
    SELECT v_found + COUNT(*)
      INTO v_found
      FROM zone_txn FORCE INDEX (PRIMARY)
     WHERE id BETWEEN v_first AND v_last
       AND created_at >= p_since
       AND created_at < p_until
       AND (p_zone_id IS NULL OR zone_id = p_zone_id);
  END WHILE;

  SELECT id, created_at, zone_id, bucket_key, blocked, would_block, counted, uncounted_at, reason, override_id, outcome, attempt_id,
         check_id, check_buckets, 1 + COALESCE(repeats, 0) AS attempts, COALESCE(repeated_at, created_at) AS last_at
    FROM zone_txn FORCE INDEX (PRIMARY)
   WHERE id BETWEEN v_first AND v_highest
     AND created_at >= p_since
     AND created_at < p_until
     AND (p_zone_id IS NULL OR zone_id = p_zone_id)
   ORDER BY created_at DESC, id DESC
   LIMIT p_limit;
END
