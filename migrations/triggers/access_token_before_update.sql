CREATE /*M! OR REPLACE */ TRIGGER access_token_before_update
BEFORE UPDATE ON access_token
FOR EACH ROW
BEGIN
  -- Refuses to let a revoked token or certificate live again: the service may revoke, and a thief of its account must
  -- not take that back.
  IF OLD.revoked_at IS NOT NULL AND NOT (NEW.revoked_at <=> OLD.revoked_at AND NEW.revoked_by <=> OLD.revoked_by) THEN
    SIGNAL SQLSTATE '45000' SET MYSQL_ERRNO = 45400, MESSAGE_TEXT = 'a token that was revoked must stay so: make a new one';
  END IF;
END
