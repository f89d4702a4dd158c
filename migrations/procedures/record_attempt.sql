CREATE /*M! OR REPLACE */ PROCEDURE record_attempt(
  IN  p_zone_id       INT,
  IN  p_bucket_key    VARCHAR(256) CHARACTER SET utf8mb4 COLLATE /*!80017 utf8mb4_0900_bin */ /*M! utf8mb4_nopad_bin */,
  IN  p_now           DATETIME(6),
  IN  p_since         DATETIME(6),
  IN  p_blocked       BOOLEAN,
  IN  p_would_block   BOOLEAN,
  IN  p_counted       BOOLEAN,
  IN  p_reason        VARCHAR(10) CHARACTER SET ascii,
  IN  p_override_id   BIGINT UNSIGNED,
  IN  p_attempt_id    VARCHAR(65) CHARACTER SET ascii,
  IN  p_check_id      BIGINT UNSIGNED,
  IN  p_check_buckets INT,
  IN  p_imprint       BINARY(16),
  OUT p_is_new        BOOLEAN
)
COMMENT 'internal: records an attempt in one bucket, as a txn or by counting it in one'
SQL SECURITY INVOKER
MODIFIES SQL DATA
BEGIN
  -- Called by check_velocity_by_rule and decide_check, under the bucket's lock. Every attempt is a
  -- txn (p_is_new), unless it is blocked and its zone has record_blocked. There the first
  -- record_blocked blocked attempts of a bucket are txns. The last of these txns counts the others that have
  -- its reason, as long as the first one came after p_since and within a day; an attempt with another
  -- reason is a txn, which counts from then on. LAST_INSERT_ID() is the id of the txn that stands for
  -- the attempt. service.Decide is the same rule in Go.
  DECLARE v_first, v_txns INT DEFAULT 0;
  DECLARE v_began, v_txn_at DATETIME(6);
  DECLARE v_txn_id BIGINT UNSIGNED;

  SET p_is_new = TRUE;
  IF p_blocked THEN
    -- Aggregates, as a SELECT … INTO without a row raises a condition (1329).
    SELECT MAX(record_blocked)
      INTO v_first
      FROM zone_master
     WHERE id = p_zone_id;
  END IF;
  IF v_first > 0 THEN
    SELECT COALESCE(MAX(blocked_txns), 0), MAX(blocked_began), MAX(blocked_txn_id), MAX(blocked_txn_at)
      INTO v_txns, v_began, v_txn_id, v_txn_at
      FROM zone_bucket_lock
     WHERE zone_id = p_zone_id
       AND bucket_key = p_bucket_key
       AND blocked_began > GREATEST(p_since, p_now - INTERVAL 1 DAY)
       AND blocked_txn_at <= p_now; -- a clock that was set back begins anew
    IF v_txns >= v_first THEN
      UPDATE zone_txn
         SET repeats = COALESCE(repeats, 0) + 1,
             repeated_at = p_now
       WHERE id = v_txn_id
         AND created_at = v_txn_at
         AND blocked = TRUE
         AND reason <=> p_reason
         AND override_id <=> p_override_id;
      SET p_is_new = ROW_COUNT() = 0;
    END IF;
  END IF;

  IF p_is_new THEN
    INSERT INTO zone_txn (created_at, zone_id, bucket_key, blocked, would_block, counted,
                          reason, override_id, attempt_id, check_id, check_buckets, imprint)
    VALUES (p_now, p_zone_id, p_bucket_key, p_blocked, p_would_block, p_counted,
            p_reason, p_override_id, p_attempt_id, p_check_id, p_check_buckets, p_imprint);
    IF LAST_INSERT_ID() = 0 THEN
      SIGNAL SQLSTATE '45000' SET MYSQL_ERRNO = 45400, MESSAGE_TEXT = 'insert_id must not be set in the session';
    END IF;
    IF v_first > 0 THEN
      UPDATE zone_bucket_lock
         SET blocked_began = COALESCE(v_began, p_now),
             blocked_txns = v_txns + 1,
             blocked_txn_id = LAST_INSERT_ID(),
             blocked_txn_at = p_now,
             blocked_reason = p_reason,
             blocked_override_id = p_override_id
       WHERE zone_id = p_zone_id
         AND bucket_key = p_bucket_key;
    END IF;
  ELSE
    DO LAST_INSERT_ID(v_txn_id);
  END IF;
END
