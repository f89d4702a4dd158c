CREATE /*M! OR REPLACE */ PROCEDURE end_lockouts(
  OUT p_removed BIGINT,
  OUT p_more    BOOLEAN
)
COMMENT 'internal: notes the ends of lockouts that have ended by time'
SQL SECURITY INVOKER
MODIFIES SQL DATA
BEGIN
  -- Called by retain_step, outside of a transaction. Deletes some rows of zone_lockout that have ended, the first ones
  -- first, and writes an event for each. A release that ends the same one waits for the row, and finds none then.
  DECLARE v_now DATETIME(6);
  /*M! IF @@secure_timestamp = 'NO' THEN */ SET timestamp = DEFAULT; /*M! END IF; */
  SET v_now = UTC_TIMESTAMP(6);
  SET TRANSACTION ISOLATION LEVEL READ COMMITTED;
  START TRANSACTION;
  -- Rows that come between two statements have no mark, and stay.
  UPDATE zone_lockout FORCE INDEX (zone_lockout_end)
     SET is_ending = TRUE
   WHERE locked_until <= v_now
   ORDER BY locked_until
   LIMIT 500;
  SET p_removed = ROW_COUNT(), p_more = p_removed = 500;
  IF p_removed > 0 THEN
    INSERT INTO zone_event (created_at, type, zone_id, bucket_key, txn_id, data)
    SELECT v_now, 'bucket.lock_ended', zone_id, bucket_key, txn_id,
           JSON_OBJECT('locked_at', DATE_FORMAT(locked_at, '%Y-%m-%dT%H:%i:%s.%fZ'),
             'ended_at', DATE_FORMAT(locked_until, '%Y-%m-%dT%H:%i:%s.%fZ'), 'cause', 'time')
      FROM zone_lockout FORCE INDEX (zone_lockout_end)
     WHERE locked_until <= v_now
       AND is_ending = TRUE
     ORDER BY locked_until;
    DELETE FROM zone_lockout
     WHERE locked_until <= v_now
       AND is_ending = TRUE;
  END IF;
  COMMIT AND NO CHAIN NO RELEASE;
END
