ALTER TABLE zone_txn
  CHANGE COLUMN would_block exceeded BOOLEAN NOT NULL,
  DROP COLUMN outcome,
  DROP COLUMN attempt_id,
  DROP COLUMN call_id,
  DROP COLUMN check_no,
  DROP COLUMN check_buckets
