-- The lockouts that have not ended, for readers who must not lock. See read_txn.
CREATE OR REPLACE SQL SECURITY DEFINER VIEW read_lockout AS
SELECT *
  FROM (SELECT zone_id, bucket_key, locked_at, locked_until, reason, txn_id
          FROM zone_lockout) AS lockout
