CREATE /*M! OR REPLACE */ PROCEDURE forget_attempts(IN p_attempt_ids JSON)
COMMENT 'internal: makes room for attempt ids that have expired'
SQL SECURITY DEFINER
MODIFIES SQL DATA
BEGIN
  -- Deletes what zone_attempt remembers of the ids in a JSON array such as '["3f6c"]' and
  -- has expired, inside the caller's transaction: the service's account may add rows and
  -- not delete any. What has not expired stays. It sets the session's timestamp to its
  -- default.
  /*M! IF @@secure_timestamp = 'NO' THEN */ SET timestamp = DEFAULT; /*M! END IF; */
  -- One lookup by key for each id: a scan would lock the whole table.
  DELETE t
    FROM JSON_TABLE(p_attempt_ids, '$[*]' COLUMNS (
           attempt_id VARCHAR(64) CHARACTER SET ascii PATH '$')) AS a
   STRAIGHT_JOIN zone_attempt AS t FORCE INDEX (PRIMARY)
      ON t.attempt_id = CAST(a.attempt_id AS BINARY)
   WHERE t.expires_at <= UTC_TIMESTAMP(6);
END
