CREATE /*M! OR REPLACE */ FUNCTION period_begin(
  p_at     DATETIME(6),
  p_period VARCHAR(8) CHARACTER SET ascii,
  p_offset INT,
  p_anchor INT
)
RETURNS DATETIME(6)
COMMENT 'internal: the first instant of a period of the calendar'
DETERMINISTIC
SQL SECURITY INVOKER
NO SQL
BEGIN
  -- Called by find_period. Returns the first instant, UTC, of the period that p_at belongs to: a second, minute,
  -- hour, day, week (from Monday) or month, by a clock that is p_offset minutes ahead of UTC. A month begins on
  -- day p_anchor, or on its last day if it has no such day. service.Calendar is the same rule in Go.
  DECLARE v_local DATETIME(6) DEFAULT p_at + INTERVAL p_offset MINUTE;
  DECLARE v_day DATE DEFAULT DATE(v_local);
  DECLARE v_month DATE DEFAULT v_day - INTERVAL DAYOFMONTH(v_day) - 1 DAY;
  DECLARE v_seconds INT DEFAULT HOUR(v_local) * 3600 + MINUTE(v_local) * 60 + SECOND(v_local);
  DECLARE v_begin DATETIME(6);
  CASE p_period
    WHEN 'month' THEN
      SET v_begin = v_month + INTERVAL LEAST(p_anchor, DAYOFMONTH(LAST_DAY(v_month))) - 1 DAY;
      IF v_begin > v_local THEN
        SET v_month = v_month - INTERVAL 1 MONTH;
        SET v_begin = v_month + INTERVAL LEAST(p_anchor, DAYOFMONTH(LAST_DAY(v_month))) - 1 DAY;
      END IF;
    WHEN 'week' THEN
      SET v_begin = v_day - INTERVAL WEEKDAY(v_day) DAY;
    ELSE
      SET v_begin = v_day + INTERVAL v_seconds - v_seconds MOD period_length(p_period) SECOND;
  END CASE;
  RETURN v_begin - INTERVAL p_offset MINUTE;
END
