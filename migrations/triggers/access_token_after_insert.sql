CREATE /*M! OR REPLACE */ TRIGGER access_token_after_insert
AFTER INSERT ON access_token
FOR EACH ROW
BEGIN
  -- Records the new token or certificate in zone_audit, without its digest.
  INSERT INTO zone_audit (changed_at, changed_by, principal, subject, action, zone_id, state_before, state_after)
  VALUES (UTC_TIMESTAMP(6), SESSION_USER(), NEW.created_by, 'token', 'insert', 0, NULL,
          JSON_OBJECT('id', NEW.id, 'kind', NEW.kind, 'name', NEW.name, 'shown', NEW.shown, 'subject', NEW.subject,
          'scopes', NEW.scopes, 'zones', NEW.zones, 'expires_at', NEW.expires_at, 'created_by', NEW.created_by,
          'revoked_at', NEW.revoked_at, 'revoked_by', NEW.revoked_by));
END
