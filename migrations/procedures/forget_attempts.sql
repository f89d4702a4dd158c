CREATE /*M! OR REPLACE */ PROCEDURE forget_attempts(IN p_attempt_ids JSON)
COMMENT 'internal: deletes attempt ids that have expired'
SQL SECURITY DEFINER
MODIFIES SQL DATA
BEGIN
  -- Called by the service inside its transaction, before it uses expired ids again: the
  -- service's account may add rows to zone_attempt and not delete any. Deletes the rows that
  -- have expired of the ids in a JSON array such as '["3f6c"]'; the others stay. Sets the
  -- session's timestamp to its default.
  /*M! IF @@secure_timestamp = 'NO' THEN */ SET timestamp = DEFAULT; /*M! END IF; */
  -- STRAIGHT_JOIN and FORCE INDEX make one lookup by key of each id. A scan would lock the
  -- whole table.
  DELETE t
    FROM JSON_TABLE(p_attempt_ids, '$[*]' COLUMNS (
           attempt_id VARCHAR(64) CHARACTER SET ascii PATH '$')) AS a
   STRAIGHT_JOIN zone_attempt AS t FORCE INDEX (PRIMARY)
      ON t.attempt_id = CAST(a.attempt_id AS BINARY)
   WHERE t.expires_at <= UTC_TIMESTAMP(6);
END
