CREATE /*M! OR REPLACE */ TRIGGER webhook_after_delete
AFTER DELETE ON webhook
FOR EACH ROW
BEGIN
  -- Records the removed webhook in zone_audit, without its secret.
  INSERT INTO zone_audit (changed_at, changed_by, principal, subject, action, zone_id, state_before, state_after)
  VALUES (UTC_TIMESTAMP(6), SESSION_USER(), LEFT(CONVERT(@velocityd_principal USING utf8mb4), 128), 'webhook', 'delete', 0,
          JSON_OBJECT('id', OLD.id, 'url', OLD.url, 'types', OLD.types, 'zones', OLD.zones,
          'description', OLD.description, 'created_by', OLD.created_by, 'resent_at', OLD.resent_at),
          NULL);
END
