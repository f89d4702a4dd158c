CREATE /*M! OR REPLACE */ PROCEDURE decide_check(
  IN  p_buckets    JSON,
  IN  p_attempt_id VARCHAR(65) CHARACTER SET utf8mb4,
  OUT p_checked_at DATETIME(6),
  OUT p_answer     LONGTEXT CHARACTER SET utf8mb4
)
COMMENT 'internal: called by check_velocity_buckets'
SQL SECURITY INVOKER
MODIFIES SQL DATA
BEGIN
  -- Decides and records one check, or recalls it. p_answer is in the form of zone_attempt.answer. The
  -- caller's transaction, which has done nothing yet, ends here and begins anew: see lock_buckets.
  DECLARE v_done, v_settled, v_overridden, v_counts, v_would_block, v_is_new, v_repeats BOOLEAN DEFAULT FALSE;
  -- As a pass takes the check to be, and as it finds it: blocked by a bucket, denied by one, and with how many new txns.
  DECLARE v_blocked, v_blocks, v_denied, v_denies BOOLEAN DEFAULT FALSE;
  DECLARE v_txns, v_new_txns, v_buckets, v_longest, v_rate, v_window, v_offset, v_anchor, v_lockout, v_concurrent, v_velocity INT
    DEFAULT 0;
  DECLARE v_zone_id, v_wait BIGINT;
  DECLARE v_written, v_key_rule, v_callers_rule VARCHAR(32) CHARACTER SET utf8mb4;
  DECLARE v_key VARCHAR(256) CHARACTER SET utf8mb4 COLLATE /*!80017 utf8mb4_0900_bin */ /*M! utf8mb4_nopad_bin */;
  DECLARE v_mode, v_action, v_period, v_reason VARCHAR(10) CHARACTER SET ascii;
  DECLARE v_oldest, v_since, v_until, v_locked_until DATETIME(6);
  DECLARE v_override_id, v_check_id BIGINT UNSIGNED;
  DECLARE v_secret_hash VARCHAR(65) CHARACTER SET utf8mb4; -- of a zone with repeat_secret free
  DECLARE v_imprint BINARY(16);
  DECLARE asked CURSOR FOR
    SELECT b.zone_id, b.written, b.bucket_key, b.key_rule, z.key_rule, z.rate, z.`window`, z.mode, z.lockout, z.concurrent, z.overridden,
           z.period, z.period_offset, z.period_anchor, IF(z.repeat_secret = 'free', b.secret_hash, NULL)
      FROM (
        SELECT MIN(n.bucket_no) AS bucket_no, n.zone_id, n.bucket_key, MAX(n.written) AS written, MAX(n.key_rule) AS key_rule,
               MAX(n.secret_hash) AS secret_hash
          FROM JSON_TABLE(p_buckets, '$[*]' COLUMNS (
                 bucket_no FOR ORDINALITY, zone_id BIGINT PATH '$.zone_id',
                 written VARCHAR(32) CHARACTER SET utf8mb4 PATH '$.zone_id',
                 bucket_key VARCHAR(256) CHARACTER SET utf8mb4 COLLATE /*!80017 utf8mb4_0900_bin */ /*M! utf8mb4_nopad_bin */
                   PATH '$.bucket_key',
                 key_rule VARCHAR(32) CHARACTER SET utf8mb4 PATH '$.key_rule' ERROR ON ERROR,
                 secret_hash VARCHAR(64) CHARACTER SET utf8mb4 PATH '$.secret_hash' ERROR ON ERROR)) AS n
         GROUP BY n.zone_id, n.bucket_key -- one that is named twice counts once
      ) AS b
      LEFT JOIN zone_master AS z ON z.id = b.zone_id
     ORDER BY b.bucket_no;
  DECLARE CONTINUE HANDLER FOR NOT FOUND SET v_done = TRUE;

  -- Refusals come before any lock row is made: sessions that wait for a new row deadlock when it is rolled back.
  CALL validate_check(p_buckets, p_attempt_id);
  OPEN asked;
  the_names: LOOP
    FETCH asked INTO v_zone_id, v_written, v_key, v_callers_rule, v_key_rule, v_rate, v_window, v_mode, v_lockout, v_concurrent,
      v_overridden, v_period, v_offset, v_anchor, v_secret_hash;
    IF v_done THEN
      LEAVE the_names;
    END IF;
    CALL validate_name(v_written, v_secret_hash);
    CALL validate_bucket(v_zone_id, v_key, v_key_rule, v_callers_rule);
    SET v_buckets = v_buckets + 1;
  END LOOP;
  CLOSE asked;

  CALL lock_buckets(p_buckets);
  -- The clock is read once, after the last wait for a lock: a statement that waited keeps the time at which it began.
  /*M! IF @@secure_timestamp = 'NO' THEN */ SET timestamp = DEFAULT; /*M! END IF; */
  SET p_checked_at = UTC_TIMESTAMP(6);
  IF p_attempt_id IS NOT NULL THEN
    CALL recall_attempt(p_attempt_id, p_buckets, v_buckets, p_checked_at, p_answer);
  END IF;

  IF p_answer IS NULL THEN
    -- Each bucket is judged and recorded as if none blocked. If one does, all that is taken back and recorded anew, as
    -- blocked. This goes on until a pass finds the check as it took it to be; an override may change between two.
    SET v_txns = v_buckets;
    SAVEPOINT locked;
    REPEAT
      ROLLBACK TO SAVEPOINT locked;
      SET v_done = FALSE, v_blocks = FALSE, v_denies = FALSE, v_new_txns = 0, v_longest = 0, p_answer = '[]',
          v_check_id = IF(v_txns > 1, UUID_SHORT(), NULL);
      OPEN asked;
      the_buckets: LOOP
        FETCH asked INTO v_zone_id, v_written, v_key, v_callers_rule, v_key_rule, v_rate, v_window, v_mode, v_lockout, v_concurrent,
          v_overridden, v_period, v_offset, v_anchor, v_secret_hash;
        IF v_done THEN
          LEAVE the_buckets;
        END IF;
        CALL validate_bucket(v_zone_id, v_key, v_key_rule, v_callers_rule); -- the zone may have changed since the first look
        SET v_velocity = NULL, v_imprint = NULL, v_repeats = FALSE;
        IF v_secret_hash IS NOT NULL THEN
          CALL judge_secret(v_zone_id, v_key, p_checked_at, v_mode, v_key_rule, v_overridden, v_offset, v_rate, v_window, v_period,
            v_anchor, v_secret_hash, v_imprint, v_repeats);
        END IF;
        CALL judge_bucket(v_zone_id, v_key, p_checked_at, NOT v_denied AND NOT v_repeats, v_mode, v_lockout, v_concurrent,
          v_key_rule, v_overridden, v_offset, v_rate, v_window, v_period, v_anchor, v_velocity, v_oldest, v_since, v_until,
          v_wait, v_counts, v_locked_until, v_override_id, v_action, v_reason);
        IF (v_denied OR v_repeats) AND v_reason = 'lockout' THEN -- another bucket is denied, or the secret is no new one: none begins
          CALL judge_bucket(v_zone_id, v_key, p_checked_at, FALSE, v_mode, 0, v_concurrent, v_key_rule, FALSE,
            v_offset, v_rate, v_window, v_period, v_anchor, v_velocity, v_oldest, v_since, v_until, v_wait, v_counts,
            v_locked_until, v_override_id, v_action, v_reason);
        END IF;
        SET v_would_block = v_wait > 0,
            v_blocks = v_blocks OR (v_would_block AND v_mode = 'enforce'),
            v_denies = v_denies OR (v_reason <=> 'denied' AND v_mode = 'enforce'),
            v_counts = v_counts AND NOT v_would_block AND NOT v_blocked AND NOT v_repeats,
            v_override_id = IF(v_reason = 'denied', v_override_id, NULL),
            v_reason = IF(v_blocked AND NOT v_would_block, 'elsewhere', v_reason);
        CALL forget_tally(v_zone_id, v_key, p_checked_at); -- in case the clock was set back
        CALL record_attempt(v_zone_id, v_key, p_checked_at, v_since, v_blocked, v_would_block, v_counts, v_reason,
          v_override_id, p_attempt_id, v_check_id, NULLIF(v_txns, 1), IF(v_counts, v_imprint, NULL), v_is_new);
        IF v_reason = 'lockout' AND v_mode = 'enforce' THEN
          CALL begin_lockout(v_zone_id, v_key, p_checked_at, LAST_INSERT_ID());
        END IF;
        SET v_new_txns = v_new_txns + v_is_new, v_longest = GREATEST(v_longest, v_window),
            -- MariaDB quotes a variable that is a number, but no sum.
            p_answer = JSON_ARRAY_APPEND(p_answer, '$', JSON_ARRAY(v_zone_id + 0, v_key,
              IF(v_would_block AND v_mode = 'enforce', 1, 0), IF(v_would_block, 1, 0), LAST_INSERT_ID(), v_rate + 0, v_window + 0,
              v_velocity + v_counts, IF(v_would_block AND v_velocity IS NOT NULL, 0, v_rate - v_velocity - v_counts),
              IF(v_would_block AND v_mode = 'enforce', (v_wait + 999999) DIV 1000000, 0), COALESCE(v_reason, ''),
              COALESCE(v_override_id, 0), COALESCE((TIMESTAMPDIFF(MICROSECOND, p_checked_at, v_until) + 999999) DIV 1000000, 0)));
      END LOOP;
      CLOSE asked;
      SET v_settled = v_blocked = v_blocks AND v_denied = v_denies AND v_txns = v_new_txns,
          v_blocked = v_blocks, v_denied = v_denies, v_txns = v_new_txns;
    UNTIL v_settled END REPEAT;
    IF p_attempt_id IS NOT NULL THEN
      INSERT INTO zone_attempt (attempt_id, created_at, expires_at, answer)
      VALUES (p_attempt_id, p_checked_at, p_checked_at + INTERVAL GREATEST(600, v_longest) SECOND, p_answer);
    END IF;
  END IF;
END
