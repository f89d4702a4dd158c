CREATE /*M! OR REPLACE */ PROCEDURE explain_txn(IN p_txn_id BIGINT UNSIGNED)
COMMENT 'public: an analyst asks why an attempt was decided as it was'
SQL SECURITY DEFINER
READS SQL DATA
BEGIN
  -- Says why an attempt was decided as it was, as far as SQL can:
  --   CALL explain_txn(981)
  -- It answers with one row: the sentence, the txn, the limit of its zone as it was by zone_audit (rate, window in
  -- seconds, period), how many txns counted before it by that limit, and opens_at, from when on an attempt passes or
  -- passed, NULL unless the reason is full; then with the rows that counted, the newest first. Their uncounted_at says
  -- when a place was given back since. It does NOT decide the attempt again, and knows no override with action limit
  -- and no length of a lockout: velocityd txn explain does. It reads the newest 5,000 txns of the bucket that count
  -- now, and of the others the newest 20,000. It locks nothing. Errors:
  --   45400  the session is SERIALIZABLE
  --   45404  there is no such txn
  DECLARE v_since, v_until, v_at, v_oldest, v_opens DATETIME(6);
  DECLARE v_check_id, v_first_id, v_last_id BIGINT UNSIGNED;
  DECLARE v_zone_id, v_rate, v_window, v_counted INT;
  DECLARE v_period VARCHAR(8) CHARACTER SET ascii;
  DECLARE v_key VARCHAR(256) CHARACTER SET utf8mb4 COLLATE /*!80017 utf8mb4_0900_bin */ /*M! utf8mb4_nopad_bin */;
  DECLARE v_rows LONGTEXT CHARACTER SET utf8mb4;

  IF /*!80000 @@transaction_isolation */ /*M! @@tx_isolation */ = 'SERIALIZABLE' THEN
    SIGNAL SQLSTATE '45000' SET MYSQL_ERRNO = 45400,
      MESSAGE_TEXT = 'a SERIALIZABLE session locks what it reads: SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED';
  END IF;
  CALL txns_of_check(p_txn_id, v_at, v_check_id, v_first_id, v_last_id);
  IF v_at IS NULL THEN
    SIGNAL SQLSTATE '45000' SET MYSQL_ERRNO = 45404, MESSAGE_TEXT = 'there is no such txn';
  END IF;
  SELECT MAX(zone_id), MAX(bucket_key)
    INTO v_zone_id, v_key
    FROM zone_txn
   WHERE id = p_txn_id
     AND created_at = v_at;
  CALL find_limit_then(v_zone_id, v_at, v_rate, v_window, v_period, v_since, v_until);

  -- As JSON, because they are needed twice, and a procedure that reads has no table to keep them in.
  SELECT COALESCE(JSON_ARRAYAGG(JSON_ARRAY(id, created_at, outcome, uncounted_at)), '[]')
    INTO v_rows
    FROM ((SELECT id, created_at, outcome, uncounted_at
             FROM zone_txn FORCE INDEX (zone_txn_window)
            WHERE zone_id = v_zone_id
              AND bucket_key = v_key
              AND counted = TRUE
              AND created_at > v_since
              AND created_at <= v_at
            ORDER BY created_at DESC, id DESC
            LIMIT 5000)
          UNION ALL
          (SELECT id, created_at, outcome, uncounted_at
             FROM (SELECT id, created_at, outcome, uncounted_at
                     FROM zone_txn FORCE INDEX (zone_txn_window)
                    WHERE zone_id = v_zone_id
                      AND bucket_key = v_key
                      AND counted = FALSE
                      AND created_at > v_since
                      AND created_at <= v_at
                    ORDER BY created_at DESC, id DESC
                    LIMIT 20000) AS others
            WHERE uncounted_at > v_at
            LIMIT 5000)) AS found
   WHERE created_at < v_at
      OR id < p_txn_id;
  SELECT COUNT(*), MIN(IF(place <= v_rate, created_at, NULL))
    INTO v_counted, v_oldest
    FROM (SELECT created_at, ROW_NUMBER() OVER (ORDER BY created_at DESC) AS place
            FROM JSON_TABLE(v_rows, '$[*]' COLUMNS (created_at DATETIME(6) PATH '$[1]')) AS found) AS newest;
  SET v_opens = IF(v_counted < v_rate OR v_rate = 0, NULL, COALESCE(v_until, v_oldest + INTERVAL v_window SECOND));

  -- Times are without their day where it is that of the txn: SUBSTRING takes them from the 12th character on.
  SELECT CONCAT(
           IF(blocked, 'Blocked', 'Allowed'),
           CASE
             WHEN v_rate IS NULL THEN '; the limit of that time is not known, because zone_audit has no zone then'
             WHEN reason IN ('full', 'lockout') AND v_rate = 0 THEN ': the limit was 0 attempts'
             WHEN reason IN ('full', 'lockout') THEN CONCAT(
               IF(blocked, ': ', ', though without room: '), LEAST(v_counted, v_rate), ' of ', v_rate, ' attempts',
               COALESCE(CONCAT(
                 ' since ', SUBSTRING(v_oldest, IF(DATE(v_oldest) = DATE(v_at), 12, 1)), ' UTC; the next place ',
                 IF(v_opens > UTC_TIMESTAMP(6), 'opens', 'opened'), ' at ',
                 SUBSTRING(v_opens, IF(DATE(v_opens) = DATE(v_at), 12, 1)), ' UTC'), ''),
               IF(reason = 'lockout', '; so a lockout began', ''),
               IF(v_counted < v_rate, '; an override had another limit, or some of the rows are gone', ''))
             WHEN reason = 'locked' THEN ', locked by a lockout that began before'
             WHEN reason = 'denied' THEN CONCAT(', denied by override ', override_id)
             WHEN reason = 'concurrent' THEN ', because too many attempts were under way'
             WHEN reason = 'elsewhere' THEN ' by another bucket of its check'
             WHEN counted OR uncounted_at IS NOT NULL THEN CONCAT(': it was attempt ', v_counted + 1, ' of ', v_rate)
             ELSE ': it did not count, because the zone was off or an override allowed it'
           END, '.') AS summary,
         id, created_at, zone_id, bucket_key, blocked, would_block, counted, uncounted_at, reason, override_id, outcome, attempt_id,
         check_id, check_buckets, 1 + COALESCE(repeats, 0) AS attempts, COALESCE(repeated_at, created_at) AS last_at,
         v_rate AS rate, v_window AS `window`, v_period AS period, v_counted AS velocity,
         IF(reason = 'full', v_opens, NULL) AS opens_at -- a place is of no use to a bucket that something else keeps shut
    FROM zone_txn
   WHERE id = p_txn_id
     AND created_at = v_at;
  SELECT id, created_at, outcome, uncounted_at
    FROM JSON_TABLE(v_rows, '$[*]' COLUMNS (
           id BIGINT UNSIGNED PATH '$[0]',
           created_at DATETIME(6) PATH '$[1]',
           outcome VARCHAR(7) CHARACTER SET ascii PATH '$[2]',
           uncounted_at DATETIME(6) PATH '$[3]')) AS found
   ORDER BY created_at DESC, id DESC;
END
