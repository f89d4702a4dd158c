CREATE /*M! OR REPLACE */ TRIGGER zone_master_after_delete
AFTER DELETE ON zone_master
FOR EACH ROW
BEGIN
  -- Records the deleted zone in zone_audit.
  INSERT INTO zone_audit (changed_at, changed_by, principal, subject, action, zone_id, override_id, state_before, state_after)
  VALUES (UTC_TIMESTAMP(6), SESSION_USER(), LEFT(CONVERT(@velocityd_principal USING utf8mb4), 128), 'zone', 'delete', OLD.id, NULL,
          JSON_OBJECT('id', OLD.id, 'description', OLD.description, 'rate', OLD.rate,
          'window', OLD.`window`, 'period', OLD.period, 'period_offset', OLD.period_offset,
          'period_anchor', OLD.period_anchor, 'mode', OLD.mode, 'counts', OLD.counts,
          'reserve_ttl', OLD.reserve_ttl, 'reset_on_success', OLD.reset_on_success,
          'concurrent', OLD.concurrent, 'repeat_secret', OLD.repeat_secret, 'lockout', OLD.lockout,
          'lockout_factor', OLD.lockout_factor, 'lockout_max', OLD.lockout_max, 'lockout_decay', OLD.lockout_decay,
          'key_kind', OLD.key_kind, 'key_form', OLD.key_form, 'ipv4_prefix', OLD.ipv4_prefix, 'ipv6_prefix', OLD.ipv6_prefix,
          'on_failure', OLD.on_failure,
          'record_blocked', OLD.record_blocked, 'keep_days', OLD.keep_days, 'totals', OLD.totals, 'revision', OLD.revision),
          NULL);
END
