CREATE /*M! OR REPLACE */ TRIGGER zone_override_after_update
AFTER UPDATE ON zone_override
FOR EACH ROW
BEGIN
  -- Notes the prefix length, so that decisions look for it, and records the change of an override
  -- in zone_audit. When its key is erased, both states have the pseudonym and the reason that stand
  -- there from now on.
  DECLARE v_is_erased BOOLEAN DEFAULT COALESCE(
    NEW.bucket_key LIKE 'erased:%' OR NEW.bucket_key LIKE 'hmac:erased:%', FALSE);
  IF NEW.network IS NOT NULL THEN
    INSERT INTO zone_override_prefix_length (zone_id, family, prefix_length)
    VALUES (NEW.zone_id, LEFT(NEW.network, 1), LENGTH(NEW.network) - 2)
    ON DUPLICATE KEY UPDATE zone_id = NEW.zone_id;
  END IF;
  INSERT INTO zone_audit (changed_at, changed_by, principal, subject, action, zone_id, override_id, state_before, state_after)
  VALUES (UTC_TIMESTAMP(6), SESSION_USER(), LEFT(CONVERT(@velocityd_principal USING utf8mb4), 128), 'override', 'update', NEW.zone_id, NEW.id,
          JSON_OBJECT('id', OLD.id, 'zone_id', OLD.zone_id, 'bucket_key', IF(v_is_erased, NEW.bucket_key, OLD.bucket_key),
          'prefix', OLD.prefix, 'action', OLD.action, 'rate', OLD.rate,
          'window', OLD.`window`, 'period_anchor', OLD.period_anchor, 'expires_at', OLD.expires_at,
          'reason', IF(v_is_erased, NEW.reason, OLD.reason), 'created_by', OLD.created_by),
          JSON_OBJECT('id', NEW.id, 'zone_id', NEW.zone_id, 'bucket_key', NEW.bucket_key,
          'prefix', NEW.prefix, 'action', NEW.action, 'rate', NEW.rate,
          'window', NEW.`window`, 'period_anchor', NEW.period_anchor, 'expires_at', NEW.expires_at, 'reason', NEW.reason,
          'created_by', NEW.created_by));
END
