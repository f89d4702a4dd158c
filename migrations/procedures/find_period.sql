CREATE /*M! OR REPLACE */ PROCEDURE find_period(
  IN  p_at     DATETIME(6),
  IN  p_window INT,
  IN  p_period VARCHAR(8) CHARACTER SET ascii,
  IN  p_offset INT,
  IN  p_anchor INT,
  OUT p_since  DATETIME(6),
  OUT p_until  DATETIME(6)
)
COMMENT 'internal: since when txns count, and the end of the period'
SQL SECURITY INVOKER
NO SQL
BEGIN
  -- Called by judge_bucket, uncount_bucket and find_limit_then. p_since is the instant after which txns
  -- count at p_at, by a limit with this window or period. p_until is the first instant of the next period, or NULL
  -- without a period. The window of a period is the length of the longest one; no two periods together are
  -- shorter. service.Term is the same rule in Go.
  IF p_period = 'none' THEN
    SET p_since = p_at - INTERVAL p_window SECOND, p_until = NULL;
  ELSE
    SET p_since = period_begin(p_at, p_period, p_offset, p_anchor);
    SET p_until = period_begin(p_since + INTERVAL p_window SECOND, p_period, p_offset, p_anchor);
    SET p_since = p_since - INTERVAL 1 MICROSECOND;
  END IF;
END
