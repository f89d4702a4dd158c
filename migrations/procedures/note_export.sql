CREATE /*M! OR REPLACE */ PROCEDURE note_export(
  IN p_zone_id   INT,
  IN p_principal VARCHAR(129) CHARACTER SET utf8mb4,
  IN p_filter    JSON
)
COMMENT 'public: records that somebody takes a copy of a part of the history'
SQL SECURITY DEFINER
MODIFIES SQL DATA
BEGIN
  -- Writes a row of zone_audit about an export, before the first txn leaves:
  --   CALL note_export(1, 'ann of support', '{"format": "csv", "bucket_key": ["alice"]}')
  -- The arguments are the zone's id (0 for several zones), the exporter's name (NULL if unknown), and which
  -- txns, as a JSON object. The row has the account of the session, too. Errors:
  --   45400  the exporter's name is too long, the filter is no object, or the session has set insert_id
  -- It sets the session's timestamp to its default.
  IF CHAR_LENGTH(p_principal) > 128 OR COALESCE(JSON_TYPE(p_filter), '') <> 'OBJECT' OR p_zone_id IS NULL THEN
    SIGNAL SQLSTATE '45000' SET MYSQL_ERRNO = 45400,
      MESSAGE_TEXT = 'the zone must not be NULL, who must be at most 128 characters, and the filter an object of JSON';
  END IF;
  /*M! IF @@secure_timestamp = 'NO' THEN */ SET timestamp = DEFAULT; /*M! END IF; */
  INSERT INTO zone_audit (changed_at, changed_by, principal, subject, action, zone_id, state_after)
  VALUES (UTC_TIMESTAMP(6), SESSION_USER(), p_principal, 'history', 'export', p_zone_id, p_filter);
END
