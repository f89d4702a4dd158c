-- The answers to checks with an attempt_id, for readers who must not lock. See read_txn.
CREATE OR REPLACE SQL SECURITY DEFINER VIEW read_attempt AS
SELECT *
  FROM (SELECT attempt_id, created_at, expires_at, answer
          FROM zone_attempt) AS attempt
