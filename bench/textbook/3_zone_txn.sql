CREATE TABLE zone_txn (
  id BIGINT UNSIGNED NOT NULL AUTO_INCREMENT PRIMARY KEY, zone_id INT NOT NULL,
  bucket_key VARCHAR(255) CHARACTER SET utf8mb4 NOT NULL, blocked BOOLEAN NOT NULL, created_at DATETIME(6) NOT NULL,
  KEY (zone_id, bucket_key, created_at))
