CREATE /*M! OR REPLACE */ FUNCTION period_length(p_period VARCHAR(8) CHARACTER SET ascii)
RETURNS INT
COMMENT 'internal: the length of a period of the calendar'
DETERMINISTIC
SQL SECURITY INVOKER
NO SQL
BEGIN
  -- Called by period_begin and the triggers of zone_master. Returns the seconds of the longest period of a kind, and
  -- NULL for none. The CHECK of zone_master has the same numbers, because a CHECK may not call a function.
  RETURN CASE p_period WHEN 'second' THEN 1 WHEN 'minute' THEN 60 WHEN 'hour' THEN 3600 WHEN 'day' THEN 86400
    WHEN 'week' THEN 604800 WHEN 'month' THEN 2678400 END;
END
