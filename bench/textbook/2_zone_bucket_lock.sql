CREATE TABLE zone_bucket_lock (
  zone_id INT NOT NULL, bucket_key VARCHAR(255) CHARACTER SET utf8mb4 NOT NULL, PRIMARY KEY (zone_id, bucket_key))
