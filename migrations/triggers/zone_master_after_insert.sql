CREATE /*M! OR REPLACE */ TRIGGER zone_master_after_insert
AFTER INSERT ON zone_master
FOR EACH ROW
BEGIN
  -- Records the new zone in zone_audit.
  INSERT INTO zone_audit (changed_at, changed_by, principal, subject, action, zone_id, override_id, state_before, state_after)
  VALUES (UTC_TIMESTAMP(6), SESSION_USER(), LEFT(CONVERT(@velocityd_principal USING utf8mb4), 128), 'zone', 'insert', NEW.id, NULL,
          NULL,
          JSON_OBJECT('id', NEW.id, 'description', NEW.description, 'rate', NEW.rate,
          'window', NEW.`window`, 'period', NEW.period, 'period_offset', NEW.period_offset,
          'period_anchor', NEW.period_anchor, 'mode', NEW.mode, 'counts', NEW.counts,
          'reserve_ttl', NEW.reserve_ttl, 'reset_on_success', NEW.reset_on_success,
          'concurrent', NEW.concurrent, 'repeat_secret', NEW.repeat_secret, 'lockout', NEW.lockout,
          'lockout_factor', NEW.lockout_factor, 'lockout_max', NEW.lockout_max, 'lockout_decay', NEW.lockout_decay,
          'key_kind', NEW.key_kind, 'key_form', NEW.key_form, 'ipv4_prefix', NEW.ipv4_prefix, 'ipv6_prefix', NEW.ipv6_prefix,
          'on_failure', NEW.on_failure,
          'record_blocked', NEW.record_blocked, 'keep_days', NEW.keep_days, 'totals', NEW.totals, 'revision', NEW.revision));
END
