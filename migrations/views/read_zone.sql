-- The settings of zones, for readers who must not lock. See read_txn. The schema's working columns
-- (overridden, narrowed_at) are left out.
CREATE OR REPLACE SQL SECURITY DEFINER VIEW read_zone AS
SELECT *
  FROM (SELECT id, description, rate, `window`, period, period_offset, period_anchor, mode, counts, reserve_ttl, reset_on_success,
               concurrent, repeat_secret, lockout, lockout_factor, lockout_max, lockout_decay,
               key_kind, key_form, ipv4_prefix, ipv6_prefix, key_rule,
               on_failure, record_blocked, keep_days, totals, revision
          FROM zone_master) AS zone
