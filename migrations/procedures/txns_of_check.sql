CREATE /*M! OR REPLACE */ PROCEDURE txns_of_check(
  IN  p_txn_id     BIGINT UNSIGNED,
  OUT p_created_at DATETIME(6),
  OUT p_check_id   BIGINT UNSIGNED,
  OUT p_first_id   BIGINT UNSIGNED,
  OUT p_last_id    BIGINT UNSIGNED
)
COMMENT 'internal: called by record_outcomes and explain_txn'
SQL SECURITY INVOKER
READS SQL DATA
BEGIN
  -- Finds the txns of the check that a txn belongs to: those with ids from p_first_id to p_last_id
  -- that have this created_at and this check_id, which is NULL if there is only one. p_created_at
  -- is NULL if there is no such txn. If two txns have the id, the older one is meant. There is no
  -- index on check_id, but txns of one check have ids close to each other: the search widens from
  -- the txn until it has found them all. It ends 65,536 ids away, in case some of them were deleted.
  DECLARE v_buckets, v_found INT DEFAULT 0;
  DECLARE v_span BIGINT DEFAULT 16;
  DECLARE v_since, v_until DATETIME(6);

  CALL times_of_txn(p_txn_id, v_since, v_until);
  SELECT MIN(created_at)
    INTO p_created_at
    FROM zone_txn
   WHERE id = p_txn_id
     AND created_at BETWEEN v_since AND v_until;
  IF p_created_at IS NULL THEN
    SELECT MIN(created_at)
      INTO p_created_at
      FROM zone_txn
     WHERE id = p_txn_id;
  END IF;
  SELECT MAX(check_id), MAX(check_buckets)
    INTO p_check_id, v_buckets
    FROM zone_txn
   WHERE id = p_txn_id
     AND created_at = p_created_at;
  SET p_first_id = p_txn_id, p_last_id = p_txn_id;
  WHILE v_found < v_buckets AND v_span <= 65536 DO
    SELECT COUNT(*), MIN(id), MAX(id)
      INTO v_found, p_first_id, p_last_id
      FROM zone_txn
     WHERE id BETWEEN IF(p_txn_id > v_span, p_txn_id - v_span, 1) AND p_txn_id + v_span
       AND created_at = p_created_at
       AND check_id = p_check_id;
    SET v_span = v_span * 16;
  END WHILE;
END
