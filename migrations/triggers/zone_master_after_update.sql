CREATE /*M! OR REPLACE */ TRIGGER zone_master_after_update
AFTER UPDATE ON zone_master
FOR EACH ROW
BEGIN
  -- Records a change of the zone in zone_audit. A change of `overridden` alone has
  -- raised no revision and is not recorded.
  IF NEW.revision <> OLD.revision THEN
    INSERT INTO zone_audit (changed_at, changed_by, principal, subject, action, zone_id, override_id, state_before, state_after)
    VALUES (UTC_TIMESTAMP(6), SESSION_USER(), LEFT(CONVERT(@velocityd_principal USING utf8mb4), 128), 'zone', 'update', NEW.id, NULL,
            JSON_OBJECT('id', OLD.id, 'description', OLD.description, 'rate', OLD.rate,
            'window', OLD.`window`, 'period', OLD.period, 'period_offset', OLD.period_offset,
            'period_anchor', OLD.period_anchor, 'mode', OLD.mode, 'counts', OLD.counts,
            'reserve_ttl', OLD.reserve_ttl, 'reset_on_success', OLD.reset_on_success,
            'concurrent', OLD.concurrent, 'repeat_secret', OLD.repeat_secret, 'lockout', OLD.lockout,
            'lockout_factor', OLD.lockout_factor, 'lockout_max', OLD.lockout_max, 'lockout_decay', OLD.lockout_decay,
            'key_kind', OLD.key_kind, 'key_form', OLD.key_form, 'ipv4_prefix', OLD.ipv4_prefix, 'ipv6_prefix', OLD.ipv6_prefix,
            'on_failure', OLD.on_failure,
            'record_blocked', OLD.record_blocked, 'keep_days', OLD.keep_days, 'totals', OLD.totals, 'revision', OLD.revision),
            JSON_OBJECT('id', NEW.id, 'description', NEW.description, 'rate', NEW.rate,
            'window', NEW.`window`, 'period', NEW.period, 'period_offset', NEW.period_offset,
            'period_anchor', NEW.period_anchor, 'mode', NEW.mode, 'counts', NEW.counts,
            'reserve_ttl', NEW.reserve_ttl, 'reset_on_success', NEW.reset_on_success,
            'concurrent', NEW.concurrent, 'repeat_secret', NEW.repeat_secret, 'lockout', NEW.lockout,
            'lockout_factor', NEW.lockout_factor, 'lockout_max', NEW.lockout_max, 'lockout_decay', NEW.lockout_decay,
            'key_kind', NEW.key_kind, 'key_form', NEW.key_form, 'ipv4_prefix', NEW.ipv4_prefix, 'ipv6_prefix', NEW.ipv6_prefix,
            'on_failure', NEW.on_failure,
            'record_blocked', NEW.record_blocked, 'keep_days', NEW.keep_days, 'totals', NEW.totals, 'revision', NEW.revision));
  END IF;
END
