CREATE /*M! OR REPLACE */ PROCEDURE rehearse(IN p_way VARCHAR(8) CHARACTER SET ascii, IN p_depth INT)
COMMENT 'internal: goes the way of a check, report, release or edit, and takes all of it back'
SQL SECURITY DEFINER
MODIFIES SQL DATA
BEGIN
  -- Called by readiness and doctor, outside of a transaction. p_way is check, report, release or edit. It
  -- writes the rows of this way, in a zone that cannot exist and for a bucket that no other session names,
  -- calls the procedures of the way, and rolls back. So an error of the way ends this call: too little
  -- stack, no partition for now, a missing right of the owner. Edits and releases use up ids of zone_audit.
  -- p_depth calls come before the first of them, so that the last of them is as deep as on the way. Sets
  -- max_sp_recursion_depth of the session.
  DECLARE v_zone_id INT DEFAULT 2147483647 - CONNECTION_ID() % 1000000;
  DECLARE v_key VARCHAR(256) CHARACTER SET utf8mb4 COLLATE /*!80017 utf8mb4_0900_bin */ /*M! utf8mb4_nopad_bin */
    DEFAULT INET_NTOA(CONNECTION_ID() % 4294967296);
  DECLARE v_now, v_oldest, v_since, v_until, v_locked_until DATETIME(6);
  DECLARE v_rate INT DEFAULT 1;
  DECLARE v_window INT DEFAULT 2678400;
  DECLARE v_velocity INT;
  DECLARE v_period VARCHAR(8) CHARACTER SET ascii DEFAULT 'month';
  DECLARE v_anchor INT DEFAULT 31;
  DECLARE v_wait BIGINT;
  DECLARE v_counts BOOLEAN;
  DECLARE v_id, v_override_id, v_check_id, v_first_id, v_last_id BIGINT UNSIGNED;
  DECLARE v_action, v_status, v_reason VARCHAR(16) CHARACTER SET ascii;
  IF p_depth > 0 THEN
    SET SESSION max_sp_recursion_depth = 8;
    CALL rehearse(p_way, p_depth - 1);
  ELSE
    SET TRANSACTION ISOLATION LEVEL READ COMMITTED;
    START TRANSACTION READ WRITE;
    BEGIN
      DECLARE EXIT HANDLER FOR SQLEXCEPTION
      BEGIN
        ROLLBACK AND NO CHAIN NO RELEASE;
        RESIGNAL;
      END;
      SET v_now = UTC_TIMESTAMP(6);
      IF p_way = 'edit' THEN
        INSERT INTO zone_master (id, rate, `window`, key_kind) VALUES (v_zone_id, 1, 60, 'ip');
        UPDATE zone_master SET rate = 2 WHERE id = v_zone_id;
        INSERT INTO zone_override (zone_id, bucket_key, action) VALUES (v_zone_id, v_key, 'deny');
        UPDATE zone_override SET bucket_key = NULL, prefix = '203.0.113.0/24' WHERE zone_id = v_zone_id;
        DELETE FROM zone_override WHERE zone_id = v_zone_id;
        DELETE FROM zone_master WHERE id = v_zone_id;
      ELSE
        INSERT INTO zone_bucket_lock (zone_id, bucket_key) VALUES (0, v_key);
        -- With the newest txn's id and another time, the row goes to the place of the next txn, and uses up
        -- no id.
        SELECT MAX(id) INTO v_id FROM zone_txn;
        IF v_id IS NOT NULL THEN
          INSERT INTO zone_txn (id, created_at, zone_id, bucket_key, blocked, would_block, counted)
          VALUES (v_id, v_now, 0, v_key, FALSE, FALSE, TRUE);
        END IF;
        CALL judge_bucket(0, v_key, v_now, TRUE, 'enforce', 1, 1, 'ip/32/64', TRUE, 0,
          v_rate, v_window, v_period, v_anchor, v_velocity, v_oldest, v_since, v_until,
          v_wait, v_counts, v_locked_until, v_override_id, v_action, v_reason);
      END IF;
      IF p_way = 'report' THEN
        CALL txns_of_check(v_id, v_oldest, v_check_id, v_first_id, v_last_id);
        CALL record_outcome(v_now, NULL, v_id, v_id, 'success', v_now, v_status);
      END IF;
      IF p_way IN ('report', 'release') THEN
        CALL uncount_bucket(0, v_key, v_now);
      END IF;
      IF p_way = 'release' THEN
        INSERT INTO zone_audit (changed_at, changed_by, subject, action, zone_id, state_after)
        VALUES (v_now, SESSION_USER(), 'bucket', 'release', 0, JSON_OBJECT('bucket_key', v_key, 'reason', p_way));
      END IF;
      ROLLBACK AND NO CHAIN NO RELEASE;
    END;
  END IF;
END
