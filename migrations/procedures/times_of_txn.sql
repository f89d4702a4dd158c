CREATE /*M! OR REPLACE */ PROCEDURE times_of_txn(
  IN  p_txn_id BIGINT UNSIGNED,
  OUT p_since  DATETIME(6),
  OUT p_until  DATETIME(6)
)
COMMENT 'internal: called by txns_of_check and list_txns'
SQL SECURITY INVOKER
READS SQL DATA
BEGIN
  -- Says when the txn with an id was decided, by the marks before and after it, so that a look-up by the id reads
  -- the partitions of that time alone. Two minutes more are for txns that were committed late, and for clocks
  -- that were corrected. Without marks these are all times. The caller looks everywhere if the txn is not there.
  SELECT COALESCE((SELECT marked_at
                     FROM zone_txn_mark
                    WHERE txn_id < p_txn_id
                    ORDER BY txn_id DESC
                    LIMIT 1), '1970-01-02') - INTERVAL 2 MINUTE,
         COALESCE((SELECT marked_at
                     FROM zone_txn_mark
                    WHERE txn_id >= p_txn_id
                    ORDER BY txn_id
                    LIMIT 1), '9999-01-01') + INTERVAL 2 MINUTE
    INTO p_since, p_until;
END
