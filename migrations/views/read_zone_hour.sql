-- The attempts of each zone and hour, for those who must not lock. See read_txn. The present hour is there as far as it is
-- rolled up.
CREATE OR REPLACE SQL SECURITY DEFINER VIEW read_zone_hour AS
SELECT *
  FROM (SELECT zone_id, hour, attempts, allowed, blocked, would_block, successes, failures, buckets, final
          FROM zone_hour) AS total
