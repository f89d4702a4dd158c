CREATE /*M! OR REPLACE */ TRIGGER zone_override_after_insert
AFTER INSERT ON zone_override
FOR EACH ROW
BEGIN
  -- Notes the prefix length, so that decisions look for it, and records the new override
  -- in zone_audit.
  IF NEW.network IS NOT NULL THEN
    INSERT INTO zone_override_prefix_length (zone_id, family, prefix_length)
    VALUES (NEW.zone_id, LEFT(NEW.network, 1), LENGTH(NEW.network) - 2)
    ON DUPLICATE KEY UPDATE zone_id = NEW.zone_id;
  END IF;
  INSERT INTO zone_audit (changed_at, changed_by, principal, subject, action, zone_id, override_id, state_before, state_after)
  VALUES (UTC_TIMESTAMP(6), SESSION_USER(), LEFT(CONVERT(@velocityd_principal USING utf8mb4), 128), 'override', 'insert', NEW.zone_id, NEW.id,
          NULL,
          JSON_OBJECT('id', NEW.id, 'zone_id', NEW.zone_id, 'bucket_key', NEW.bucket_key,
          'prefix', NEW.prefix, 'action', NEW.action, 'rate', NEW.rate,
          'window', NEW.`window`, 'period_anchor', NEW.period_anchor, 'expires_at', NEW.expires_at, 'reason', NEW.reason,
          'created_by', NEW.created_by));
END
