-- The audit, for readers who must not lock: a lock on zone_audit would stop all edits. See read_txn.
CREATE OR REPLACE SQL SECURITY DEFINER VIEW read_audit AS
SELECT *
  FROM (SELECT id, changed_at, changed_by, principal, subject, action, zone_id, override_id, state_before, state_after, reason,
               bucket_key
          FROM zone_audit) AS audit
