-- Exceptions from the limits of zones, for those who must not lock. See read_txn.
CREATE OR REPLACE SQL SECURITY DEFINER VIEW read_override AS
SELECT *
  FROM (SELECT id, zone_id, bucket_key, prefix, action, rate, `window`, period_anchor, expires_at, reason, created_by, created_at
          FROM zone_override) AS override
