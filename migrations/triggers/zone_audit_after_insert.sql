CREATE /*M! OR REPLACE */ TRIGGER zone_audit_after_insert
AFTER INSERT ON zone_audit
FOR EACH ROW
BEGIN
  -- Writes the event of a change, a release or an edit of a token. An export of the history, an erasure and an edit of a webhook
  -- have none. The key of an override is that of the event, too, unless it is of a network.
  DECLARE v_state JSON DEFAULT COALESCE(NEW.state_after, NEW.state_before);
  DECLARE v_type VARCHAR(32) CHARACTER SET ascii DEFAULT CASE
    WHEN NEW.subject = 'bucket' AND NEW.action = 'release' THEN 'bucket.released'
    WHEN NEW.subject = 'token' AND NEW.action = 'update' AND JSON_TYPE(JSON_EXTRACT(NEW.state_after, '$.revoked_by')) <> 'NULL'
      THEN 'token.revoked'
    WHEN NEW.subject IN ('zone', 'override', 'token')
      THEN CONCAT(NEW.subject, ELT(FIELD(NEW.action, 'insert', 'update', 'delete'), '.created', '.updated', '.deleted'))
  END;
  IF v_type IS NOT NULL THEN
    INSERT INTO zone_event (created_at, type, zone_id, bucket_key, data)
    VALUES (NEW.changed_at, v_type, NEW.zone_id,
            IF(JSON_TYPE(JSON_EXTRACT(v_state, '$.bucket_key')) = 'STRING', JSON_UNQUOTE(JSON_EXTRACT(v_state, '$.bucket_key')), ''),
            IF(NEW.subject = 'bucket',
              JSON_OBJECT('by', NEW.principal, 'account', NEW.changed_by, 'reason', JSON_UNQUOTE(JSON_EXTRACT(v_state, '$.reason'))),
              JSON_OBJECT('by', NEW.principal, 'account', NEW.changed_by,
                'before', JSON_EXTRACT(NEW.state_before, '$'), 'after', JSON_EXTRACT(NEW.state_after, '$'))));
  END IF;
END
