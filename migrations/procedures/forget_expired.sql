CREATE /*M! OR REPLACE */ PROCEDURE forget_expired(
  IN    p_table    VARCHAR(32) CHARACTER SET ascii,
  INOUT p_position VARCHAR(512) CHARACTER SET utf8mb4,
  OUT   p_removed  BIGINT,
  OUT   p_more     BOOLEAN
)
COMMENT 'internal: deletes expired attempt ids and overrides, and old rows of zone_audit and zone_event'
SQL SECURITY INVOKER
MODIFIES SQL DATA
BEGIN
  -- Called by retain_step, outside of a transaction. Deletes some rows of the table:
  --   zone_attempt   that expired an hour ago, found by their expiry and deleted by their key, as checks do
  --   zone_override  that expired a day ago, walking over the ids from p_position on; zone_audit has them then
  --   zone_event     that are older than event_days, the first ones first
  --   zone_audit     that are older than audit_days, and not the newest of their zone or override; a walk as well
  DECLARE v_now, v_final, v_cut DATETIME(6);
  DECLARE v_policy, v_longest, v_seen INT;
  DECLARE v_from, v_last BIGINT UNSIGNED;
  DECLARE v_ids JSON;
  DECLARE v_principal VARCHAR(128) CHARACTER SET utf8mb4 DEFAULT LEFT(CONVERT(@velocityd_principal USING utf8mb4), 128);
  DECLARE v_reason VARCHAR(255) CHARACTER SET utf8mb4 DEFAULT LEFT(CONVERT(@velocityd_reason USING utf8mb4), 255);

  CALL retention_bounds(v_now, v_policy, v_longest, v_final);
  SET p_removed = 0, p_more = FALSE, v_from = IF(p_position REGEXP '^[0-9]+$', p_position, 0), p_position = '';
  SET TRANSACTION ISOLATION LEVEL READ COMMITTED;
  START TRANSACTION;
  CASE p_table
    WHEN 'zone_attempt' THEN
      SELECT COUNT(*), JSON_ARRAYAGG(CAST(attempt_id AS CHAR CHARACTER SET ascii))
        INTO v_seen, v_ids
        FROM (SELECT attempt_id
                FROM zone_attempt FORCE INDEX (zone_attempt_expiry)
               WHERE expires_at < v_now - INTERVAL 1 HOUR
               ORDER BY expires_at
               LIMIT 500) AS expired;
      IF v_seen > 0 THEN
        CALL forget_attempts(v_ids);
      END IF;
      SET p_removed = v_seen, p_more = v_seen = 500;
    WHEN 'zone_override' THEN
      SELECT COUNT(*), MAX(id)
        INTO v_seen, v_last
        FROM (SELECT id
                FROM zone_override FORCE INDEX (PRIMARY)
               WHERE id > v_from
               ORDER BY id
               LIMIT 1000) AS following;
      SET @velocityd_principal = 'velocityd retention', @velocityd_reason = 'it had expired'; -- for the triggers
      DELETE FROM zone_override
       WHERE id > v_from
         AND id <= v_last
         AND expires_at < v_now - INTERVAL 1 DAY;
      SET p_removed = ROW_COUNT(), @velocityd_principal = v_principal, @velocityd_reason = v_reason, p_more = v_seen = 1000,
          p_position = IF(v_seen = 1000, v_last, '');
    WHEN 'zone_event' THEN
      SELECT v_now - INTERVAL MAX(event_days) DAY
        INTO v_cut
        FROM retention_policy
       WHERE event_days > 0;
      SELECT COUNT(*), MAX(id)
        INTO v_seen, v_last
        FROM (SELECT id, created_at
                FROM zone_event FORCE INDEX (PRIMARY)
               ORDER BY id
               LIMIT 1000) AS oldest
       WHERE created_at < v_cut;
      DELETE FROM zone_event
       WHERE id <= v_last
         AND created_at < v_cut;
      SET p_removed = ROW_COUNT(), p_more = v_seen = 1000;
    ELSE
      SELECT v_now - INTERVAL MAX(GREATEST(audit_days, minimum_days)) DAY
        INTO v_cut
        FROM retention_policy
       WHERE audit_days > 0;
      SELECT COUNT(*), MAX(id)
        INTO v_seen, v_last
        FROM (SELECT id, changed_at
                FROM zone_audit FORCE INDEX (PRIMARY)
               WHERE id > v_from
               ORDER BY id
               LIMIT 1000) AS following
       WHERE changed_at < v_cut;
      DELETE FROM zone_audit
       WHERE id > v_from
         AND id <= v_last
         AND changed_at < v_cut
         AND id NOT IN (
           SELECT newest
             FROM (SELECT MAX(id) AS newest
                     FROM zone_audit
                    GROUP BY zone_id, subject, override_id) AS kept);
      SET p_removed = ROW_COUNT(), p_more = v_seen = 1000, p_position = IF(v_seen = 1000, v_last, '');
  END CASE;
  COMMIT AND NO CHAIN NO RELEASE;
END
