CREATE /*M! OR REPLACE */ PROCEDURE txns_of_check(
  IN  p_txn_id     BIGINT UNSIGNED,
  OUT p_created_at DATETIME(6),
  OUT p_txns       TEXT CHARACTER SET ascii
)
COMMENT 'internal: called by record_outcomes'
SQL SECURITY INVOKER
READS SQL DATA
BEGIN
  -- Returns the ids of all txns of the check that a txn belongs to, as a JSON array, and their
  -- created_at, which they share. The array is empty if there is no such txn. If two txns have
  -- the id, the older one is meant. There is no index on check_id, but txns of one check have
  -- ids close to each other: the search widens from the txn until it has found them all. It ends
  -- 65,536 ids away, in case some of them were deleted.
  DECLARE v_check_id, v_id, v_last_id BIGINT UNSIGNED;
  DECLARE v_buckets, v_found INT;
  DECLARE v_span BIGINT DEFAULT 16;

  SELECT MIN(created_at)
    INTO p_created_at
    FROM zone_txn
   WHERE id = p_txn_id;
  SELECT MAX(check_id), MAX(check_buckets)
    INTO v_check_id, v_buckets
    FROM zone_txn
   WHERE id = p_txn_id
     AND created_at = p_created_at;
  IF v_buckets IS NULL THEN
    SET p_txns = IF(p_created_at IS NULL, '[]', CONCAT('[', p_txn_id, ']'));
  ELSE
    REPEAT
      SELECT COUNT(*), MIN(id), MAX(id)
        INTO v_found, v_id, v_last_id
        FROM zone_txn
       WHERE id BETWEEN IF(p_txn_id > v_span, p_txn_id - v_span, 1) AND p_txn_id + v_span
         AND created_at = p_created_at
         AND check_id = v_check_id;
      SET v_span = v_span * 16;
    UNTIL v_found >= v_buckets OR v_span > 65536 END REPEAT;
    SET p_txns = '';
    WHILE v_id IS NOT NULL DO
      SET p_txns = CONCAT(p_txns, ',', v_id);
      SELECT MIN(id)
        INTO v_id
        FROM zone_txn
       WHERE id > v_id
         AND id <= v_last_id
         AND created_at = p_created_at
         AND check_id = v_check_id;
    END WHILE;
    SET p_txns = CONCAT('[', SUBSTRING(p_txns, 2), ']');
  END IF;
END
