-- The ids of all txns of the check that a txn belongs to, as a JSON array; empty
-- if there is no such txn. They were inserted one after the other: the search
-- widens from the txn until it has them all, and ends 65,536 ids away, in case some
-- of them were deleted.
CREATE PROCEDURE find_check(IN p_txn_id BIGINT UNSIGNED, OUT p_txns LONGTEXT CHARACTER SET ascii)
-- With the rights of the procedure that calls it: by itself it is of no use to an
-- account that may only EXECUTE.
SQL SECURITY INVOKER
READS SQL DATA
BEGIN
  DECLARE v_call_id  BIGINT UNSIGNED DEFAULT NULL;
  DECLARE v_check_no INT;
  DECLARE v_buckets  INT DEFAULT NULL;
  DECLARE v_span     BIGINT DEFAULT 16;
  DECLARE v_found    INT;
  DECLARE v_seen     INT DEFAULT 0;
  DECLARE CONTINUE HANDLER FOR NOT FOUND BEGIN END;

  SELECT 1, call_id, check_no, check_buckets
    INTO v_seen, v_call_id, v_check_no, v_buckets
    FROM zone_txn
   WHERE id = p_txn_id;
  SET p_txns = IF(v_seen, CONCAT('[', p_txn_id, ']'), '[]');
  IF v_buckets IS NOT NULL THEN
    REPEAT
      SELECT COUNT(*), CONCAT('[', GROUP_CONCAT(id ORDER BY id), ']')
        INTO v_found, p_txns
        FROM zone_txn
       WHERE id BETWEEN IF(p_txn_id > v_span, p_txn_id - v_span, 1) AND p_txn_id + v_span
         AND call_id = v_call_id
         AND check_no = v_check_no;
      SET v_span = v_span * 16;
    UNTIL v_found >= v_buckets OR v_span > 65536 END REPEAT;
  END IF;
END
