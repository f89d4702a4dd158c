CREATE /*M! OR REPLACE */ TRIGGER zone_master_before_update
BEFORE UPDATE ON zone_master
FOR EACH ROW
BEGIN
  -- Refuses another id, and sets the columns that the schema keeps by itself, against the writer. Fills in the
  -- window of a new period.
  IF NEW.id <> OLD.id THEN
    SIGNAL SQLSTATE '45000' SET MYSQL_ERRNO = 45400,
      MESSAGE_TEXT = 'a zone keeps its id: insert another one';
  END IF;
  IF NEW.period <> 'none' AND (NEW.period <> OLD.period AND NEW.`window` <=> OLD.`window` OR NEW.`window` IS NULL) THEN
    SET NEW.`window` = period_length(NEW.period);
  END IF;
  -- Once set it stays: this session cannot see the overrides that others are adding.
  SET NEW.overridden = COALESCE(NEW.overridden, FALSE) OR OLD.overridden;
  -- That the zone got its first override is no change of the zone: the revision stays. HEX, because
  -- a comparison of text ignores case.
  SET NEW.revision = OLD.revision + (NEW.overridden = OLD.overridden
     OR NOT ((HEX(NEW.description), NEW.rate, NEW.`window`, NEW.mode, NEW.counts, NEW.reserve_ttl,
         NEW.period, NEW.period_offset, NEW.period_anchor,
         NEW.reset_on_success, NEW.concurrent, NEW.repeat_secret, NEW.lockout, NEW.lockout_factor, NEW.lockout_max, NEW.lockout_decay,
         NEW.key_kind, NEW.key_form, NEW.ipv4_prefix, NEW.ipv6_prefix, NEW.on_failure, NEW.record_blocked, NEW.keep_days, NEW.totals)
        <=> (HEX(OLD.description), OLD.rate, OLD.`window`, OLD.mode, OLD.counts, OLD.reserve_ttl,
         OLD.period, OLD.period_offset, OLD.period_anchor,
         OLD.reset_on_success, OLD.concurrent, OLD.repeat_secret, OLD.lockout, OLD.lockout_factor, OLD.lockout_max, OLD.lockout_decay,
         OLD.key_kind, OLD.key_form, OLD.ipv4_prefix, OLD.ipv6_prefix, OLD.on_failure, OLD.record_blocked, OLD.keep_days, OLD.totals)));
  SET NEW.narrowed_at = CASE
    WHEN NEW.concurrent > 0 OR NEW.repeat_secret = 'free' THEN '9999-12-31' -- for ever: no window reaches this day
    WHEN OLD.concurrent > 0
      OR OLD.repeat_secret = 'free'
      OR NEW.rate < OLD.rate
      OR NEW.`window` > OLD.`window`
      OR (NEW.period, NEW.period_offset, NEW.period_anchor) <> (OLD.period, OLD.period_offset, OLD.period_anchor) THEN UTC_TIMESTAMP(6)
    ELSE OLD.narrowed_at
  END;
END
