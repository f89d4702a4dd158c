-- Lockouts of buckets, for those who must not lock. See read_txn. Tallies and series of
-- blocked attempts are left out: they are the service's own notes.
CREATE OR REPLACE SQL SECURITY DEFINER VIEW read_bucket AS
SELECT *
  FROM (SELECT zone_id, bucket_key, locked_until, lockout_us, lockout_shadow
          FROM zone_bucket_lock) AS bucket
