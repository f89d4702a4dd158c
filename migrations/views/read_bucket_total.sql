-- The attempts of each bucket by hour, day, month and in all, in zones with totals, for those who must not lock. See
-- read_txn. The present spans are there as far as they are rolled up.
CREATE OR REPLACE SQL SECURITY DEFINER VIEW read_bucket_total AS
SELECT *
  FROM (SELECT zone_id, bucket_key, span, begins_at, attempts, allowed, blocked, would_block, successes, failures, last_at
          FROM zone_bucket_total) AS total
