CREATE /*M! OR REPLACE */ PROCEDURE repeat_txns(IN p_repeats JSON, IN p_now DATETIME(6))
COMMENT 'internal: counts blocked attempts in txns that stand for them'
SQL SECURITY DEFINER
MODIFIES SQL DATA
BEGIN
  -- Called by the service inside its transaction, under the locks of the buckets: the service's
  -- account may add rows to zone_txn and not change any. Each element of a JSON array such as
  -- '[[7,"2030-01-01 12:00:00.000000",3]]' is a txn's id and created_at, and how many more blocked
  -- attempts it stands for, the newest of them at p_now. Txns that were not blocked stay as they are.
  -- STRAIGHT_JOIN and FORCE INDEX make one lookup by key of each.
  UPDATE JSON_TABLE(p_repeats, '$[*]' COLUMNS (
           id BIGINT UNSIGNED PATH '$[0]',
           created_at DATETIME(6) PATH '$[1]',
           attempts INT UNSIGNED PATH '$[2]')) AS r
   STRAIGHT_JOIN zone_txn AS t FORCE INDEX (PRIMARY)
      ON t.id = r.id
     AND t.created_at = r.created_at
     SET t.repeats = COALESCE(t.repeats, 0) + r.attempts,
         t.repeated_at = p_now
   WHERE t.blocked = TRUE;
END
