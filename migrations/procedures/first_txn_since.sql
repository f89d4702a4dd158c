CREATE /*M! OR REPLACE */ PROCEDURE first_txn_since(IN p_since DATETIME(6), OUT p_txn_id BIGINT UNSIGNED)
COMMENT 'public: an analyst asks with which id a range of ids for a time begins'
SQL SECURITY DEFINER
READS SQL DATA
BEGIN
  -- Finds an id such that all txns with lower ids are older than p_since, which is UTC:
  --   CALL first_txn_since(UTC_TIMESTAMP() - INTERVAL 1 HOUR, @first);
  --   SELECT … FROM read_txn WHERE id >= @first AND created_at >= UTC_TIMESTAMP() - INTERVAL 1 HOUR;
  -- The range begins up to two minutes and 1,000 ids too early: txns of different buckets are not exactly in the
  -- order of time, so the query says the time, too. The id is 1 if p_since is NULL. It searches the ids between two
  -- marks of zone_txn_mark, and without marks all ids, which takes some dozen look-ups. It locks nothing, unless the
  -- session is SERIALIZABLE.
  DECLARE v_at DATETIME(6) DEFAULT p_since - INTERVAL 2 MINUTE;
  DECLARE v_low, v_high, v_middle, v_id BIGINT UNSIGNED DEFAULT 0;
  DECLARE v_created_at DATETIME(6);

  IF p_since IS NOT NULL THEN
    SELECT COALESCE(MAX(id), 0)
      INTO v_high
      FROM zone_txn;
    SELECT COALESCE((SELECT txn_id
                       FROM zone_txn_mark
                      WHERE marked_at <= v_at
                      ORDER BY marked_at DESC
                      LIMIT 1), 0),
           LEAST(v_high, COALESCE((SELECT txn_id
                                     FROM zone_txn_mark
                                    WHERE marked_at >= v_at
                                    ORDER BY marked_at
                                    LIMIT 1), v_high))
      INTO v_low, v_high;
  END IF;
  -- All txns up to v_low are older than v_at, and all above v_high are not.
  WHILE v_high > v_low + 1000 DO
    SET v_middle = v_low + (v_high - v_low) DIV 2;
    SELECT MAX(id), MAX(created_at)
      INTO v_id, v_created_at
      FROM (SELECT id, created_at
              FROM zone_txn FORCE INDEX (PRIMARY)
             WHERE id > v_middle
               AND id <= v_high
             ORDER BY id
             LIMIT 1) AS next;
    IF v_created_at < v_at THEN
      SET v_low = v_id;
    ELSE
      SET v_high = v_middle;
    END IF;
  END WHILE;
  SET p_txn_id = v_low + 1;
END
