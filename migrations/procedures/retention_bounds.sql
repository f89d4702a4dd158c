CREATE /*M! OR REPLACE */ PROCEDURE retention_bounds(
  OUT p_now     DATETIME(6),
  OUT p_policy  INT,
  OUT p_longest INT,
  OUT p_final   DATETIME(6)
)
COMMENT 'internal: for how long rows are kept'
SQL SECURITY INVOKER
READS SQL DATA
BEGIN
  -- Called by the procedures of retention. It is the one place that says in SQL which rows are too young to go; the
  -- package db/retention says it for engines without procedures.
  --   p_now:     the engine's clock, UTC
  --   p_policy:  days for which rows of every zone are kept; 0: for ever
  --   p_longest: the days of the zone that is kept for longest; 0: for ever
  --   p_final:   no txn from this instant on may go, because the totals have not counted it for the last time
  -- It sets the session's timestamp to its default.
  DECLARE v_floor BIGINT;
  /*M! IF @@secure_timestamp = 'NO' THEN */ SET timestamp = DEFAULT; /*M! END IF; */
  SET p_now = UTC_TIMESTAMP(6);
  -- Decisions still need these txns. An attempt id is remembered for as long as the longest window of its check, and a
  -- lockout for lockout_decay after its end. A day more is for clocks that are set back, and for checks under way.
  SELECT COALESCE(MAX(seconds), 0)
    INTO v_floor
    FROM (SELECT GREATEST(`window`, COALESCE(reserve_ttl, 0), IF(lockout > 0, lockout_max + lockout_decay, 0)) AS seconds
            FROM zone_master
           UNION ALL
          SELECT `window`
            FROM zone_override
           WHERE action = 'limit') AS needed;
  -- Without its row, rows are kept for ever.
  SELECT COALESCE(MAX(IF(keep_days = 0, 0, GREATEST(keep_days, minimum_days, 1 + CEIL(v_floor / 86400)))), 0)
    INTO p_policy
    FROM retention_policy;
  SELECT IF(p_policy = 0, 0, GREATEST(p_policy, COALESCE(MAX(keep_days), 0)))
    INTO p_longest
    FROM zone_master;
  SELECT COALESCE(MAX(final_to), p_now)
    INTO p_final
    FROM totals_progress;
END
