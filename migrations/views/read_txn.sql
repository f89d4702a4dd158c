-- Every attempt, for those who may read and must not lock: an analyst's SELECT … FOR
-- UPDATE or LOCK IN SHARE MODE from a table would stop all checks.
--
-- A locking clause reaches the tables that a view itself names, and no derived table
-- inside of it. Both engines merge the derived table into the query all the same, so
-- that conditions use the indexes of zone_txn.
CREATE OR REPLACE SQL SECURITY DEFINER VIEW read_txn AS
SELECT *
  FROM (SELECT id, created_at, zone_id, bucket_key, blocked, would_block, counted, uncounted_at, reason, override_id, outcome,
               attempt_id, check_id, check_buckets, 1 + COALESCE(repeats, 0) AS attempts, COALESCE(repeated_at, created_at) AS last_at
          FROM zone_txn) AS txn
