ALTER TABLE zone_audit
  DROP COLUMN bucket_key
