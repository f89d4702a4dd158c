CREATE /*M! OR REPLACE */ PROCEDURE retain()
COMMENT 'public: makes partitions ahead, and removes all rows that are no longer kept'
SQL SECURITY DEFINER
MODIFIES SQL DATA
BEGIN
  -- For a scheduler of the DBA's own, where no instance of the service does it (serve --retention off):
  --   CALL retain()
  -- Does all that retention_policy and the days of zones say, in small batches, and ends when nothing is left to do. A
  -- task that fails does not stop the others. Answers with one row for each task, as retention_task has it:
  --   name, began_at, ended_at, removed, error
  -- Call it outside of a transaction. Errors:
  --   1568   it was called inside a transaction
  --   45423  an instance of the service, or another session, is at it
  -- It sets the session's timestamp to its default.
  DECLARE v_lock VARCHAR(64) CHARACTER SET utf8mb4;
  DECLARE v_task VARCHAR(32) CHARACTER SET ascii;
  DECLARE v_position, v_error VARCHAR(512) CHARACTER SET utf8mb4;
  DECLARE v_place INT DEFAULT 1;
  DECLARE v_removed, v_all BIGINT;
  DECLARE v_more BOOLEAN;

  SET TRANSACTION ISOLATION LEVEL READ COMMITTED; -- error 1568 in a transaction
  SELECT CONCAT('velocityd retention ', value)
    INTO v_lock
    FROM velocity_identity
   WHERE name = 'database';
  IF COALESCE(GET_LOCK(v_lock, 0), 0) <> 1 THEN
    SIGNAL SQLSTATE '45000' SET MYSQL_ERRNO = 45423, MESSAGE_TEXT = 'another runner of retention is at work';
  END IF;
  BEGIN
    DECLARE EXIT HANDLER FOR SQLEXCEPTION
    BEGIN
      DO RELEASE_LOCK(v_lock);
      RESIGNAL;
    END;
    the_tasks: LOOP
      SET v_task = ELT(v_place, 'partitions_ahead', 'old_partitions', 'old_txns', 'idle_buckets', 'expired_attempts',
            'expired_overrides', 'old_audit', 'old_events', 'ended_lockouts'),
          v_place = v_place + 1, v_all = 0, v_error = '';
      IF v_task IS NULL THEN
        LEAVE the_tasks;
      END IF;
      INSERT INTO retention_task (name, began_at)
      VALUES (v_task, UTC_TIMESTAMP(6))
      ON DUPLICATE KEY UPDATE began_at = VALUES(began_at), ended_at = NULL;
      SELECT position
        INTO v_position
        FROM retention_task
       WHERE name = v_task;
      BEGIN
        DECLARE EXIT HANDLER FOR SQLEXCEPTION
          GET DIAGNOSTICS CONDITION 1 v_error = MESSAGE_TEXT;
        the_batches: REPEAT
          CALL retain_step(v_task, v_position, v_removed, v_more);
          SET v_all = v_all + v_removed;
        UNTIL NOT v_more END REPEAT;
      END;
      UPDATE retention_task
         SET ended_at = UTC_TIMESTAMP(6),
             succeeded_at = IF(v_error = '', UTC_TIMESTAMP(6), succeeded_at),
             removed = v_all,
             backlog = v_error <> '',
             position = v_position,
             error = v_error
       WHERE name = v_task;
    END LOOP;
    DO RELEASE_LOCK(v_lock);
  END;
  SELECT name, began_at, ended_at, removed, error
    FROM retention_task
   ORDER BY name;
END
