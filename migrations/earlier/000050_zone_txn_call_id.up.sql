ALTER TABLE zone_txn
  DROP COLUMN call_id,
  DROP COLUMN check_no
