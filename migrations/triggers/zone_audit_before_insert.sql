CREATE /*M! OR REPLACE */ TRIGGER zone_audit_before_insert
BEFORE INSERT ON zone_audit
FOR EACH ROW
BEGIN
  -- Refuses an edit in a session that has chosen the next AUTO_INCREMENT id by insert_id: with the
  -- highest id taken, nothing could be recorded and so nothing edited any more. The reason of an edit is
  -- what the session says in @velocityd_reason. CONVERT, here and in the other triggers: MySQL takes a variable that is NULL when
  -- a session first runs a trigger for binary ever after, and LEFT would count bytes.
  IF @@insert_id <> 0 THEN
    SIGNAL SQLSTATE '45000' SET MYSQL_ERRNO = 45400, MESSAGE_TEXT = 'insert_id must not be set in the session';
  END IF;
  IF NEW.subject IN ('zone', 'override', 'token', 'webhook') THEN
    SET NEW.reason = NULLIF(LEFT(CONVERT(@velocityd_reason USING utf8mb4), 255), '');
  END IF;
END
