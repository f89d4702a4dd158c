CREATE /*M! OR REPLACE */ TRIGGER webhook_after_update
AFTER UPDATE ON webhook
FOR EACH ROW
BEGIN
  -- Records in zone_audit a change of a webhook, without its secret, and the order to send its dead deliveries again. Progress of
  -- its deliveries is no change.
  IF NOT ((NEW.url, NEW.types, NEW.zones, HEX(NEW.description), NEW.secret, NEW.created_by, NEW.resent_at)
    <=> (OLD.url, OLD.types, OLD.zones, HEX(OLD.description), OLD.secret, OLD.created_by, OLD.resent_at)) THEN
    INSERT INTO zone_audit (changed_at, changed_by, principal, subject, action, zone_id, state_before, state_after)
    VALUES (UTC_TIMESTAMP(6), SESSION_USER(), LEFT(CONVERT(@velocityd_principal USING utf8mb4), 128), 'webhook', 'update', 0,
            JSON_OBJECT('id', OLD.id, 'url', OLD.url, 'types', OLD.types, 'zones', OLD.zones,
            'description', OLD.description, 'created_by', OLD.created_by, 'resent_at', OLD.resent_at),
            JSON_OBJECT('id', NEW.id, 'url', NEW.url, 'types', NEW.types, 'zones', NEW.zones,
            'description', NEW.description, 'created_by', NEW.created_by, 'resent_at', NEW.resent_at));
  END IF;
END
