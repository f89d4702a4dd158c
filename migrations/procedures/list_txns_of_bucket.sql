CREATE /*M! OR REPLACE */ PROCEDURE list_txns_of_bucket(
  IN p_zone_id    INT,
  IN p_bucket_key VARCHAR(256) CHARACTER SET utf8mb4 COLLATE /*!80017 utf8mb4_0900_bin */ /*M! utf8mb4_nopad_bin */,
  IN p_since      DATETIME(6),
  IN p_until      DATETIME(6),
  IN p_limit      INT
)
COMMENT 'internal: called by list_txns'
SQL SECURITY INVOKER
READS SQL DATA
BEGIN
  -- Answers with the newest p_limit txns of a bucket from p_since until before p_until. It counts them in growing
  -- parts of time, newest first, until there are enough, so that it looks into no older partition than it has to.
  -- Parts end at midnight, where partitions begin.
  DECLARE v_to DATETIME(6) DEFAULT p_until;
  DECLARE v_from DATETIME(6) DEFAULT GREATEST(p_since, DATE(LEAST(p_until, UTC_TIMESTAMP(6))));
  DECLARE v_found, v_days INT DEFAULT 0;

  the_parts: LOOP
    SELECT v_found + COUNT(*)
      INTO v_found
      FROM ((SELECT id
               FROM zone_txn FORCE INDEX (zone_txn_window)
              WHERE zone_id = p_zone_id
                AND bucket_key = p_bucket_key
                AND counted = TRUE
                AND created_at >= v_from
                AND created_at < v_to
              LIMIT p_limit)
            UNION ALL
            (SELECT id
               FROM zone_txn FORCE INDEX (zone_txn_window)
              WHERE zone_id = p_zone_id
                AND bucket_key = p_bucket_key
                AND counted = FALSE
                AND created_at >= v_from
                AND created_at < v_to
              LIMIT p_limit)) AS found;
    IF v_found >= p_limit OR v_from <= p_since THEN
      LEAVE the_parts;
    END IF;
    SET v_days = v_days * 7 + 1,
        v_to = v_from,
        v_from = IF(v_days > 400, p_since, GREATEST(p_since, v_from - INTERVAL v_days DAY));
  END LOOP;

  SELECT id, created_at, zone_id, bucket_key, blocked, would_block, counted, uncounted_at, reason, override_id, outcome, attempt_id,
         check_id, check_buckets, 1 + COALESCE(repeats, 0) AS attempts, COALESCE(repeated_at, created_at) AS last_at
    FROM ((SELECT *
             FROM zone_txn FORCE INDEX (zone_txn_window)
            WHERE zone_id = p_zone_id
              AND bucket_key = p_bucket_key
              AND counted = TRUE
              AND created_at >= v_from
              AND created_at < p_until
            ORDER BY created_at DESC, id DESC
            LIMIT p_limit)
          UNION ALL
          (SELECT *
             FROM zone_txn FORCE INDEX (zone_txn_window)
            WHERE zone_id = p_zone_id
              AND bucket_key = p_bucket_key
              AND counted = FALSE
              AND created_at >= v_from
              AND created_at < p_until
            ORDER BY created_at DESC, id DESC
            LIMIT p_limit)) AS txn
   ORDER BY created_at DESC, id DESC
   LIMIT p_limit;
END
