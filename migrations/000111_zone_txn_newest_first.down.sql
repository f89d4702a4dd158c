ALTER TABLE zone_txn
  DROP KEY zone_txn_window,
  ADD KEY zone_txn_window (zone_id, bucket_key, counted, created_at)
