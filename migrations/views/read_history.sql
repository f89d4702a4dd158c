-- Every attempt, read from the first to the last: for queries over the whole history.
-- By itself the engine would read the index, and look up each row. See read_txn.
CREATE OR REPLACE SQL SECURITY DEFINER VIEW read_history AS
SELECT *
  FROM (SELECT id, created_at, zone_id, bucket_key, blocked, would_block, counted, uncounted_at, reason, override_id, outcome,
               attempt_id, check_id, check_buckets, 1 + COALESCE(repeats, 0) AS attempts, COALESCE(repeated_at, created_at) AS last_at
          FROM zone_txn IGNORE INDEX (zone_txn_window)) AS txn
