-- The events, for readers who must not lock: a lock on zone_event could stop checks. See read_txn.
CREATE OR REPLACE SQL SECURITY DEFINER VIEW read_event AS
SELECT *
  FROM (SELECT id, created_at, type, zone_id, bucket_key, txn_id, data
          FROM zone_event) AS event
