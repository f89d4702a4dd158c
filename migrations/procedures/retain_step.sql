CREATE /*M! OR REPLACE */ PROCEDURE retain_step(
  IN    p_task     VARCHAR(32) CHARACTER SET ascii,
  INOUT p_position VARCHAR(512) CHARACTER SET utf8mb4,
  OUT   p_removed  BIGINT,
  OUT   p_more     BOOLEAN
)
COMMENT 'internal: one batch of a task of retention'
SQL SECURITY INVOKER
MODIFIES SQL DATA
BEGIN
  -- Called by retain and retain_task. Does one batch, from p_position on, and says how many rows it has removed, where
  -- the next batch goes on, and whether there is more to do. After an error nothing is left open.
  DECLARE EXIT HANDLER FOR SQLEXCEPTION
  BEGIN
    ROLLBACK AND NO CHAIN NO RELEASE;
    RESIGNAL;
  END;
  SET p_more = FALSE;
  CASE p_task
    WHEN 'partitions_ahead' THEN
      CALL make_partitions(p_removed);
      SET p_removed = 0;
    WHEN 'old_partitions' THEN
      CALL drop_partitions(p_removed, p_more);
    WHEN 'old_txns' THEN
      CALL forget_txns(p_position, p_removed, p_more);
    WHEN 'idle_buckets' THEN
      CALL forget_buckets(p_position, p_removed, p_more);
    WHEN 'expired_attempts' THEN
      CALL forget_expired('zone_attempt', p_position, p_removed, p_more);
    WHEN 'expired_overrides' THEN
      CALL forget_expired('zone_override', p_position, p_removed, p_more);
    WHEN 'old_events' THEN
      CALL forget_expired('zone_event', p_position, p_removed, p_more);
    WHEN 'ended_lockouts' THEN
      CALL end_lockouts(p_removed, p_more);
    WHEN 'old_audit' THEN
      CALL forget_expired('zone_audit', p_position, p_removed, p_more);
    ELSE
      SIGNAL SQLSTATE '45000' SET MYSQL_ERRNO = 45400, MESSAGE_TEXT = 'retention has no such task';
  END CASE;
END
