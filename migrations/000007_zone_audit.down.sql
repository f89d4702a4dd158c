DROP TABLE zone_audit
