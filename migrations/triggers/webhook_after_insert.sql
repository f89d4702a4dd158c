CREATE /*M! OR REPLACE */ TRIGGER webhook_after_insert
AFTER INSERT ON webhook
FOR EACH ROW
BEGIN
  -- Records the new webhook in zone_audit, without its secret.
  INSERT INTO zone_audit (changed_at, changed_by, principal, subject, action, zone_id, state_before, state_after)
  VALUES (UTC_TIMESTAMP(6), SESSION_USER(), NEW.created_by, 'webhook', 'insert', 0,
          NULL,
          JSON_OBJECT('id', NEW.id, 'url', NEW.url, 'types', NEW.types, 'zones', NEW.zones,
          'description', NEW.description, 'created_by', NEW.created_by, 'resent_at', NEW.resent_at));
END
