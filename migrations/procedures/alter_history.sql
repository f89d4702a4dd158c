CREATE /*M! OR REPLACE */ PROCEDURE alter_history(IN p_change TEXT CHARACTER SET utf8mb4)
COMMENT 'internal: changes the partitions of zone_txn, or gives up after a second'
SQL SECURITY INVOKER
MODIFIES SQL DATA
BEGIN
  -- Called by make_partitions and drop_partitions. The ALTER waits for all readers and writers of the table, and every check
  -- waits behind it. So it gives up after a second, with error 1205.
  DECLARE v_patience BIGINT UNSIGNED DEFAULT @@SESSION.lock_wait_timeout;
  DECLARE EXIT HANDLER FOR SQLEXCEPTION
  BEGIN
    SET SESSION lock_wait_timeout = v_patience;
    RESIGNAL;
  END;
  SET SESSION lock_wait_timeout = 1;
  SET @velocityd_change = CONCAT('ALTER TABLE zone_txn ', p_change);
  PREPARE history_change FROM @velocityd_change;
  EXECUTE history_change;
  DEALLOCATE PREPARE history_change;
  SET SESSION lock_wait_timeout = v_patience;
END
