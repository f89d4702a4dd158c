-- The webhooks without their secrets, for readers who must not lock. See read_txn.
CREATE OR REPLACE SQL SECURITY DEFINER VIEW read_webhook AS
SELECT *
  FROM (SELECT id, url, types, zones, description, created_at, created_by, position, succeeded_at, failed_at, error, resent_at
          FROM webhook) AS receiver
