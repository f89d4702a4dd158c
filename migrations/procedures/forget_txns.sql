CREATE /*M! OR REPLACE */ PROCEDURE forget_txns(
  INOUT p_position VARCHAR(512) CHARACTER SET utf8mb4,
  OUT   p_removed  BIGINT,
  OUT   p_more     BOOLEAN
)
COMMENT 'internal: deletes txns of zones that are kept for less long than others'
SQL SECURITY INVOKER
MODIFIES SQL DATA
BEGIN
  -- Called by retain_step, outside of a transaction. Deletes some of the txns that their zone keeps no longer, and that
  -- no partition takes along when it goes: those of zones that are kept for less long than another one, and of a table
  -- without partitions by created_at all. For each number of days it walks over the ids, from p_position on: a JSON
  -- object with an id for each number, and with the zones for which it holds. If the policy or the days of a zone have
  -- changed, all walks begin anew.
  DECLARE v_now, v_final, v_cut DATETIME(6);
  DECLARE v_policy, v_longest, v_days, v_is_partitioned INT DEFAULT 0;
  DECLARE v_from, v_last, v_seen BIGINT UNSIGNED;
  DECLARE v_old, v_group_length BIGINT;
  DECLARE v_longer MEDIUMTEXT CHARACTER SET utf8mb4;
  DECLARE v_of, v_highest BIGINT UNSIGNED;

  SET TRANSACTION ISOLATION LEVEL READ COMMITTED;
  START TRANSACTION;
  CALL retention_bounds(v_now, v_policy, v_longest, v_final);
  SELECT COUNT(*)
    INTO v_is_partitioned
    FROM information_schema.partitions
   WHERE table_schema = DATABASE()
     AND table_name = 'zone_txn'
     AND partition_method = 'RANGE COLUMNS'
     AND REPLACE(partition_expression, '`', '') = 'created_at';
  SELECT COALESCE(SUM(CRC32(CONCAT_WS(' ', v_policy, id, keep_days))), 0)
    INTO v_of
    FROM zone_master
   WHERE keep_days > v_policy;
  IF NOT JSON_VALID(p_position) OR COALESCE(JSON_EXTRACT(p_position, '$.of') <> v_of, TRUE) THEN
    SET p_position = JSON_OBJECT('of', v_of);
  END IF;
  SET p_removed = 0, p_more = FALSE;
  the_days: LOOP
    SELECT MIN(days)
      INTO v_days
      FROM (SELECT v_policy AS days UNION SELECT GREATEST(keep_days, v_policy) FROM zone_master) AS kept
     WHERE days > v_days
       AND v_policy > 0
       AND (days < v_longest OR NOT v_is_partitioned);
    IF v_days IS NULL THEN
      LEAVE the_days;
    END IF;
    SET v_cut = LEAST(v_now - INTERVAL v_days DAY, v_final),
        v_from = COALESCE(JSON_EXTRACT(p_position, CONCAT('$."', v_days, '"')), 0);
    -- Ids are given a little before their txn is committed. So the walk goes on behind those alone that are older than
    -- the cut by some minutes.
    SELECT COUNT(*), SUM(created_at < v_cut), MAX(IF(created_at < v_cut - INTERVAL 10 MINUTE, id, NULL)), MAX(id)
      INTO v_seen, v_old, v_last, v_highest
      FROM (SELECT id, created_at
              FROM zone_txn FORCE INDEX (PRIMARY)
             WHERE id > v_from
             ORDER BY id
             LIMIT 1000) AS following;
    IF v_old > 0 THEN
      SET v_group_length = @@SESSION.group_concat_max_len;
      SET SESSION group_concat_max_len = 1048576;
      SELECT COALESCE(GROUP_CONCAT(id), '')
        INTO v_longer
        FROM zone_master
       WHERE keep_days > v_days;
      SET SESSION group_concat_max_len = v_group_length;
      DELETE FROM zone_txn
       WHERE id > v_from
         AND id <= v_highest
         AND created_at < v_cut
         AND NOT FIND_IN_SET(zone_id, v_longer);
      SET p_removed = ROW_COUNT();
    END IF;
    IF v_last IS NOT NULL THEN
      SET p_position = JSON_SET(p_position, CONCAT('$."', v_days, '"'), v_last),
          p_more = TRUE;
    END IF;
    IF p_removed > 0 OR p_more THEN
      LEAVE the_days;
    END IF;
  END LOOP;
  COMMIT AND NO CHAIN NO RELEASE;
END
