CREATE /*M! OR REPLACE */ TRIGGER zone_override_after_delete
AFTER DELETE ON zone_override
FOR EACH ROW
BEGIN
  -- Records the deleted override in zone_audit.
  INSERT INTO zone_audit (changed_at, changed_by, principal, subject, action, zone_id, override_id, state_before, state_after)
  VALUES (UTC_TIMESTAMP(6), SESSION_USER(), LEFT(CONVERT(@velocityd_principal USING utf8mb4), 128), 'override', 'delete', OLD.zone_id, OLD.id,
          JSON_OBJECT('id', OLD.id, 'zone_id', OLD.zone_id, 'bucket_key', OLD.bucket_key,
          'prefix', OLD.prefix, 'action', OLD.action, 'rate', OLD.rate,
          'window', OLD.`window`, 'period_anchor', OLD.period_anchor, 'expires_at', OLD.expires_at, 'reason', OLD.reason,
          'created_by', OLD.created_by),
          NULL);
END
