-- The changes of one key, the newest last. The engines build it while others write.
ALTER TABLE zone_audit
  ADD KEY zone_audit_key (zone_id, bucket_key, id)
