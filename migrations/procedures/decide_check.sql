CREATE /*M! OR REPLACE */ PROCEDURE decide_check(
  IN  p_buckets    JSON,
  IN  p_attempt_id VARCHAR(65) CHARACTER SET ascii,
  IN  p_zones      LONGTEXT CHARACTER SET ascii,
  IN  p_now        DATETIME(6),
  OUT p_status     VARCHAR(8) CHARACTER SET ascii,
  OUT p_checked_at DATETIME(6),
  OUT p_verdicts   LONGTEXT CHARACTER SET utf8mb4
)
COMMENT 'internal: called by check_velocity_batch for each check'
SQL SECURITY INVOKER
MODIFIES SQL DATA
BEGIN
  -- Decides and records one check, all or nothing. p_zones lists the zones that exist, such as '1,2'; if it has all
  -- zones of the check, the caller holds the locks of the check's buckets. p_status is:
  --   refused   a zone is not in p_zones
  --   conflict  the attempt_id was used with other buckets
  --   decided   p_verdicts is the answer in the form of zone_attempt.answer, and p_checked_at the time of the decision
  DECLARE v_is_new, v_done, v_known, v_overridden, v_enforced, v_counts, v_would_block, v_denied BOOLEAN DEFAULT FALSE;
  DECLARE v_blocked BOOLEAN DEFAULT FALSE; -- by any bucket: then no bucket is charged
  DECLARE v_buckets, v_zone_id, v_rate, v_window, v_lockout, v_velocity, v_longest, v_rows INT DEFAULT 0;
  DECLARE v_mode, v_action VARCHAR(8) CHARACTER SET ascii;
  DECLARE v_reason VARCHAR(9) CHARACTER SET ascii;
  DECLARE v_key_rule, v_callers_rule VARCHAR(32) CHARACTER SET ascii;
  DECLARE v_key VARCHAR(256) CHARACTER SET utf8mb4 COLLATE /*!80017 utf8mb4_0900_bin */ /*M! utf8mb4_nopad_bin */;
  DECLARE v_oldest, v_locked_until DATETIME(6);
  DECLARE v_wait, v_retry_after BIGINT;
  DECLARE v_override_id, v_check_id, v_first_id, v_last_id BIGINT UNSIGNED;
  DECLARE v_judged LONGTEXT CHARACTER SET utf8mb4 DEFAULT '';
  DECLARE asked CURSOR FOR
    SELECT b.zone_id, b.bucket_key, b.key_rule,
           z.rate, z.`window`, z.mode, z.lockout, z.key_rule, z.overridden
      FROM (
        SELECT MIN(n.bucket_no) AS bucket_no, n.zone_id, n.bucket_key, MAX(n.key_rule) AS key_rule -- one that is named twice counts once
          FROM JSON_TABLE(p_buckets, '$[*]' COLUMNS (
                 bucket_no FOR ORDINALITY,
                 zone_id INT PATH '$.zone_id',
                 bucket_key VARCHAR(256) CHARACTER SET utf8mb4 COLLATE /*!80017 utf8mb4_0900_bin */ /*M! utf8mb4_nopad_bin */ PATH '$.bucket_key',
                 key_rule VARCHAR(32) CHARACTER SET ascii PATH '$.key_rule')) AS n
         GROUP BY n.zone_id, n.bucket_key
      ) AS b
      LEFT JOIN zone_master AS z ON z.id = b.zone_id
     ORDER BY b.bucket_no;
  DECLARE judged CURSOR FOR
    SELECT j.zone_id, j.bucket_key, j.would_block, j.enforced, j.counts, j.retry_after, j.rate, j.`window`, j.velocity, j.reason, j.override_id
      FROM JSON_TABLE(CONCAT('[', SUBSTRING(v_judged, 2), ']'), '$[*]' COLUMNS (
             bucket_no FOR ORDINALITY,
             zone_id INT PATH '$[0]',
             bucket_key VARCHAR(256) CHARACTER SET utf8mb4 COLLATE /*!80017 utf8mb4_0900_bin */ /*M! utf8mb4_nopad_bin */ PATH '$[1]',
             would_block INT PATH '$[2]', enforced INT PATH '$[3]', counts INT PATH '$[4]', retry_after BIGINT PATH '$[5]',
             rate INT PATH '$[6]', `window` INT PATH '$[7]', velocity INT PATH '$[8]',
             reason VARCHAR(9) CHARACTER SET ascii PATH '$[9]', override_id BIGINT UNSIGNED PATH '$[10]')) AS j
     ORDER BY j.bucket_no;
  DECLARE CONTINUE HANDLER FOR NOT FOUND SET v_done = TRUE;

  SELECT COUNT(DISTINCT b.zone_id, b.bucket_key), MIN(COALESCE(FIND_IN_SET(b.zone_id, p_zones) > 0, FALSE))
    INTO v_buckets, v_known
    FROM JSON_TABLE(p_buckets, '$[*]' COLUMNS (
           zone_id BIGINT PATH '$.zone_id',
           bucket_key VARCHAR(256) CHARACTER SET utf8mb4 COLLATE /*!80017 utf8mb4_0900_bin */ /*M! utf8mb4_nopad_bin */ PATH '$.bucket_key')) AS b;
  IF NOT v_known THEN
    SET p_status = 'refused', p_checked_at = p_now, p_verdicts = '[]';
  ELSEIF p_attempt_id IS NOT NULL THEN
    CALL recall_attempt(p_attempt_id, p_buckets, v_buckets, p_now, p_status, p_checked_at, p_verdicts);
  END IF;

  IF p_status IS NULL THEN
    -- First the rule for each bucket, then, when it is known whether any blocks, the rows.
    OPEN asked;
    the_buckets: LOOP
      FETCH asked INTO v_zone_id, v_key, v_callers_rule, v_rate, v_window, v_mode, v_lockout, v_key_rule, v_overridden;
      IF v_done THEN
        LEAVE the_buckets;
      END IF;
      CALL validate_bucket(v_zone_id, v_key, v_key_rule, v_callers_rule); -- the zone may have changed after lock_checks looked
      SET v_velocity = NULL;
      CALL judge_bucket(v_zone_id, v_key, p_now, FALSE, v_mode, v_lockout, v_key_rule, v_overridden,
        v_rate, v_window, v_velocity, v_oldest, v_wait, v_counts, v_locked_until, v_override_id, v_action, v_reason);
      SET v_blocked = v_blocked OR (v_wait > 0 AND v_mode = 'enforce'),
          v_denied = v_denied OR (v_reason <=> 'denied' AND v_mode = 'enforce'),
          v_judged = CONCAT(v_judged, ',[', CONCAT_WS(',', v_zone_id, JSON_QUOTE(v_key), v_wait > 0, v_mode = 'enforce',
            v_counts, (v_wait + 999999) DIV 1000000, v_rate, v_window, COALESCE(v_velocity, 'null'),
            JSON_QUOTE(COALESCE(v_reason, '')), IF(v_reason = 'denied', v_override_id, 0)), ']');
    END LOOP;
    CLOSE asked;

    SET v_done = FALSE, p_status = 'decided', p_checked_at = p_now, p_verdicts = '',
        v_check_id = IF(v_buckets > 1, UUID_SHORT(), NULL);
    OPEN judged;
    the_rows: LOOP
      FETCH judged INTO v_zone_id, v_key, v_would_block, v_enforced, v_counts, v_retry_after, v_rate, v_window, v_velocity,
        v_reason, v_override_id;
      IF v_done THEN
        LEAVE the_rows;
      END IF;
      IF v_reason = 'lockout' THEN -- it begins now, unless another bucket of the check is denied
        SET v_velocity = NULL;
        CALL judge_bucket(v_zone_id, v_key, p_now, TRUE, IF(v_enforced, 'enforce', 'shadow'), NOT v_denied, '', FALSE,
          v_rate, v_window, v_velocity, v_oldest, v_wait, v_counts, v_locked_until, v_override_id, v_action, v_reason);
        SET v_override_id = 0, v_retry_after = (v_wait + 999999) DIV 1000000;
      END IF;
      SET v_counts = v_counts AND NOT v_would_block AND NOT v_blocked, v_longest = GREATEST(v_longest, v_window),
          v_reason = IF(v_blocked AND NOT v_would_block, 'elsewhere', v_reason);
      CALL forget_tally(v_zone_id, v_key, p_now); -- in case the clock was set back
      CALL record_attempt(v_zone_id, v_key, p_now, v_window, v_blocked, v_would_block, v_counts, NULLIF(v_reason, ''),
        NULLIF(v_override_id, 0), p_attempt_id, v_check_id, NULLIF(v_buckets, 1), v_is_new);
      IF v_is_new THEN
        SET v_rows = v_rows + 1, v_first_id = COALESCE(v_first_id, LAST_INSERT_ID()), v_last_id = LAST_INSERT_ID();
      END IF;
      SET p_verdicts = CONCAT(p_verdicts, ',[', CONCAT_WS(',', v_zone_id, JSON_QUOTE(v_key), v_would_block AND v_enforced,
        v_would_block, LAST_INSERT_ID(), v_rate, v_window, COALESCE(v_velocity + v_counts, 'null'),
        COALESCE(IF(v_would_block AND v_velocity IS NOT NULL, 0, v_rate - v_velocity - v_counts), 'null'), IF(v_would_block AND v_enforced, v_retry_after, 0),
        JSON_QUOTE(v_reason), v_override_id), ']');
    END LOOP;
    CLOSE judged;
    SET p_verdicts = CONCAT('[', SUBSTRING(p_verdicts, 2), ']');
    IF v_rows < v_buckets THEN -- the others are counted in txns of earlier checks
      UPDATE zone_txn SET check_id = IF(v_rows > 1, check_id, NULL), check_buckets = NULLIF(v_rows, 1)
       WHERE id BETWEEN v_first_id AND v_last_id AND created_at = p_now AND check_id = v_check_id;
    END IF;
    IF p_attempt_id IS NOT NULL THEN
      INSERT INTO zone_attempt (attempt_id, created_at, expires_at, answer)
      VALUES (p_attempt_id, p_now, p_now + INTERVAL GREATEST(600, v_longest) SECOND, p_verdicts);
    END IF;
  END IF;
END
