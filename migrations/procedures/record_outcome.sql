CREATE /*M! OR REPLACE */ PROCEDURE record_outcome(
  IN  p_created_at DATETIME(6),
  IN  p_check_id   BIGINT UNSIGNED,
  IN  p_first_id   BIGINT UNSIGNED,
  IN  p_last_id    BIGINT UNSIGNED,
  IN  p_outcome    VARCHAR(16) CHARACTER SET utf8mb4,
  IN  p_now        DATETIME(6),
  OUT p_status     VARCHAR(16) CHARACTER SET ascii
)
COMMENT 'internal: called by record_outcomes for each check'
SQL SECURITY INVOKER
MODIFIES SQL DATA
BEGIN
  -- Records how the login of one check ended. p_created_at to p_last_id are its txns as
  -- txns_of_check found them; the caller holds the locks of their buckets. p_status is one of
  -- those that report_outcomes lists.
  DECLARE v_done, v_is_blocked, v_is_late, v_is_given_back, v_resets BOOLEAN DEFAULT FALSE;
  DECLARE v_before VARCHAR(16) CHARACTER SET ascii;
  DECLARE v_id BIGINT UNSIGNED;
  DECLARE v_zone_id INT;
  DECLARE v_key VARCHAR(256) CHARACTER SET utf8mb4 COLLATE /*!80017 utf8mb4_0900_bin */ /*M! utf8mb4_nopad_bin */;
  DECLARE siblings CURSOR FOR
    SELECT t.id, t.zone_id, t.bucket_key,
           p_outcome = 'success' AND COALESCE(z.counts = 'failures', FALSE), -- its place is given back
           p_outcome = 'success' AND COALESCE(z.reset_on_success, FALSE)
      FROM zone_txn AS t
      LEFT JOIN zone_master AS z ON z.id = t.zone_id
     WHERE t.id BETWEEN p_first_id AND p_last_id
       AND t.created_at = p_created_at
       AND t.check_id <=> p_check_id;
  DECLARE CONTINUE HANDLER FOR NOT FOUND SET v_done = TRUE;

  SELECT MAX(t.blocked),
         MAX(t.outcome),
         MAX(z.counts = 'failures' AND p_now > t.created_at + INTERVAL COALESCE(z.reserve_ttl, z.`window`) SECOND)
    INTO v_is_blocked, v_before, v_is_late
    FROM zone_txn AS t
    LEFT JOIN zone_master AS z ON z.id = t.zone_id
   WHERE t.id BETWEEN p_first_id AND p_last_id
     AND t.created_at = p_created_at
     AND t.check_id <=> p_check_id;
  SET p_status = CASE
    WHEN v_is_blocked IS NULL THEN 'unknown_txn'
    WHEN v_is_blocked THEN 'blocked'
    WHEN v_before <> p_outcome THEN 'conflict'
    WHEN v_before IS NULL AND v_is_late AND p_outcome = 'success' THEN 'expired'
    ELSE 'recorded'
  END;

  IF p_status = 'recorded' AND v_before IS NULL THEN
    OPEN siblings;
    the_siblings: LOOP
      FETCH siblings INTO v_id, v_zone_id, v_key, v_is_given_back, v_resets;
      IF v_done THEN
        LEAVE the_siblings;
      END IF;
      -- An UPDATE joined with zone_master would lock the zone's row. It would wait for a session
      -- that edits the zone, while the buckets stay locked, and could deadlock with it.
      UPDATE zone_txn
         SET outcome = p_outcome,
             uncounted_at = IF(counted AND v_is_given_back, p_now, uncounted_at), -- before counted changes
             counted = counted AND NOT v_is_given_back
       WHERE id = v_id
         AND created_at = p_created_at;
      IF v_is_given_back THEN
        CALL forget_tally(v_zone_id, v_key, p_created_at);
      END IF;
      IF v_resets THEN
        CALL uncount_bucket(v_zone_id, v_key, p_now);
      END IF;
    END LOOP;
    CLOSE siblings;
  END IF;
END
