CREATE /*M! OR REPLACE */ PROCEDURE drop_partitions(OUT p_removed BIGINT, OUT p_more BOOLEAN)
COMMENT 'internal: drops a partition of zone_txn that no zone keeps'
SQL SECURITY INVOKER
MODIFIES SQL DATA
BEGIN
  -- Called by retain_step. Drops the oldest partition if all its txns are older than the zone keeps them that is kept
  -- for longest. p_removed is the engine's estimate of its rows, and p_more says that the next one may go as well.
  -- Error 1205: a session reads the table.
  DECLARE v_now, v_final, v_cut, v_end DATETIME(6);
  DECLARE v_policy, v_longest INT;
  DECLARE v_rows BIGINT;
  DECLARE v_name VARCHAR(64) CHARACTER SET utf8mb4;

  CALL retention_bounds(v_now, v_policy, v_longest, v_final);
  SET p_removed = 0, p_more = FALSE, v_cut = LEAST(v_now - INTERVAL v_longest DAY, v_final);
  SELECT MAX(partition_name), MAX(table_rows),
         MAX(CAST(SUBSTRING(partition_description, 2, CHAR_LENGTH(partition_description) - 2) AS DATETIME(6)))
    INTO v_name, v_rows, v_end
    FROM information_schema.partitions
   WHERE table_schema = DATABASE()
     AND table_name = 'zone_txn'
     AND partition_method = 'RANGE COLUMNS'
     AND REPLACE(partition_expression, '`', '') = 'created_at'
     AND partition_description <> 'MAXVALUE'
     AND partition_ordinal_position = 1;
  IF v_longest > 0 AND v_end <= v_cut THEN
    CALL alter_history(CONCAT('DROP PARTITION `', v_name, '`'));
    SET p_removed = v_rows, p_more = TRUE;
  END IF;
END
