ALTER TABLE zone_audit
  DROP KEY zone_audit_key
