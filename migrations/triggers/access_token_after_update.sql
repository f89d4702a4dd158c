CREATE /*M! OR REPLACE */ TRIGGER access_token_after_update
AFTER UPDATE ON access_token
FOR EACH ROW
BEGIN
  -- Records a change of a token or certificate in zone_audit, without its digest. The note of its last use is no change.
  IF NEW.last_used_at <=> OLD.last_used_at THEN
    INSERT INTO zone_audit (changed_at, changed_by, principal, subject, action, zone_id, state_before, state_after)
    VALUES (UTC_TIMESTAMP(6), SESSION_USER(), COALESCE(NEW.revoked_by, LEFT(CONVERT(@velocityd_principal USING utf8mb4), 128)), 'token', 'update', 0,
            JSON_OBJECT('id', OLD.id, 'kind', OLD.kind, 'name', OLD.name, 'shown', OLD.shown, 'subject', OLD.subject,
            'scopes', OLD.scopes, 'zones', OLD.zones, 'expires_at', OLD.expires_at, 'created_by', OLD.created_by,
            'revoked_at', OLD.revoked_at, 'revoked_by', OLD.revoked_by),
            JSON_OBJECT('id', NEW.id, 'kind', NEW.kind, 'name', NEW.name, 'shown', NEW.shown, 'subject', NEW.subject,
            'scopes', NEW.scopes, 'zones', NEW.zones, 'expires_at', NEW.expires_at, 'created_by', NEW.created_by,
            'revoked_at', NEW.revoked_at, 'revoked_by', NEW.revoked_by));
  END IF;
END
