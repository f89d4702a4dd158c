CREATE /*M! OR REPLACE */ PROCEDURE make_partitions(OUT p_made INT)
COMMENT 'internal: makes partitions of zone_txn ahead of time'
SQL SECURITY INVOKER
MODIFIES SQL DATA
BEGIN
  -- Called by retain_step. Splits the last partition, which has no end, so that there are some for the days to come:
  -- days if txns are kept for 60 days or less, weeks up to 400, months up to 1800, and years beyond. So there are about
  -- 64 at most. Partitions that are there keep their width, because a change would copy their rows under a lock. For the
  -- same reason the last one is split only as long as it has few rows. It leaves a table alone that is not partitioned
  -- by created_at. Errors:
  --   1205   a session reads the table: the ALTER waits for a second, because checks wait behind it
  --   45409  the last partition has many rows: a person has to split it, in a quiet hour
  DECLARE v_now, v_final, v_last DATETIME(6);
  DECLARE v_policy, v_longest, v_rows INT;
  DECLARE v_begin, v_until DATE;
  DECLARE v_name VARCHAR(64) CHARACTER SET utf8mb4;
  DECLARE v_new TEXT CHARACTER SET utf8mb4 DEFAULT '';

  CALL retention_bounds(v_now, v_policy, v_longest, v_final);
  SET p_made = 0;
  SELECT MAX(IF(partition_description = 'MAXVALUE', partition_name, NULL)),
         MAX(IF(partition_description = 'MAXVALUE', NULL,
           CAST(SUBSTRING(partition_description, 2, CHAR_LENGTH(partition_description) - 2) AS DATETIME(6))))
    INTO v_name, v_last
    FROM information_schema.partitions
   WHERE table_schema = DATABASE()
     AND table_name = 'zone_txn'
     AND partition_method = 'RANGE COLUMNS'
     AND REPLACE(partition_expression, '`', '') = 'created_at';
  SET v_begin = GREATEST(COALESCE(DATE(v_last), DATE(v_now)), DATE(v_now)),
      v_until = DATE(v_now) + INTERVAL CASE WHEN v_longest BETWEEN 1 AND 60 THEN 3
                                            WHEN v_longest BETWEEN 1 AND 400 THEN 7
                                            WHEN v_longest BETWEEN 1 AND 1800 THEN 31
                                            ELSE 366 END DAY;
  WHILE v_name IS NOT NULL AND v_begin <= v_until DO
    SET v_new = CONCAT(v_new, 'PARTITION p', DATE_FORMAT(v_begin, '%Y%m%d')),
        v_begin = CASE WHEN v_longest BETWEEN 1 AND 60 THEN v_begin + INTERVAL 1 DAY
                       WHEN v_longest BETWEEN 1 AND 400 THEN v_begin + INTERVAL 7 - WEEKDAY(v_begin) DAY
                       WHEN v_longest BETWEEN 1 AND 1800 THEN LAST_DAY(v_begin) + INTERVAL 1 DAY
                       ELSE MAKEDATE(YEAR(v_begin) + 1, 1) END,
        v_new = CONCAT(v_new, ' VALUES LESS THAN (', QUOTE(v_begin), '), '),
        p_made = p_made + 1;
  END WHILE;
  IF p_made > 0 THEN
    SELECT COUNT(*)
      INTO v_rows
      FROM (SELECT 1
              FROM zone_txn
             WHERE created_at >= COALESCE(v_last, '1000-01-01')
             LIMIT 10001) AS some;
    IF v_rows > 10000 THEN
      SIGNAL SQLSTATE '45000' SET MYSQL_ERRNO = 45409,
        MESSAGE_TEXT = 'the last partition of zone_txn has many rows: split it in a quiet hour (docs/dba.md, Partitions)';
    END IF;
    CALL alter_history(CONCAT('REORGANIZE PARTITION `', v_name, '` INTO (', v_new,
      'PARTITION `', v_name, '` VALUES LESS THAN (MAXVALUE))'));
  END IF;
END
