DROP TABLE zone_txn
