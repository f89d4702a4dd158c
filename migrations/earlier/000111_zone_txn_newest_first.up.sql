-- The newest txns of a bucket come first in the index, so that every count reads it
-- forwards. Engines lose rows when they read an index backwards: InnoDB while pages
-- are merged (MySQL bugs 114248 and 115518), MariaDB in partitioned tables (MDEV-40479).
ALTER TABLE zone_txn
  DROP KEY zone_txn_window,
  ADD KEY zone_txn_window (zone_id, bucket_key, counted, created_at DESC, id DESC)
