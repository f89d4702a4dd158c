-- Of a CHECK that refuses a row, both engines show the constraint's name and nothing
-- else. So the name of each is the rule in words: "Check constraint 'rate must be 0 to
-- 1000000' is violated." The bounds themselves stay as they were.
--
-- An ENUM cannot speak so: in strict mode the engine refuses mode = 'shadov' as
-- "Data truncated for column 'mode'" before any trigger or CHECK sees the row.
ALTER TABLE zone_master
  DROP CONSTRAINT zone_master_id,
  DROP CONSTRAINT zone_master_rate,
  DROP CONSTRAINT zone_master_window,
  DROP CONSTRAINT zone_master_mode,
  DROP CONSTRAINT zone_master_counts,
  DROP CONSTRAINT zone_master_reserve_ttl,
  DROP CONSTRAINT zone_master_reset_on_success,
  DROP CONSTRAINT zone_master_lockout,
  DROP CONSTRAINT zone_master_lockout_factor,
  DROP CONSTRAINT zone_master_lockout_max,
  DROP CONSTRAINT zone_master_lockout_decay,
  DROP CONSTRAINT zone_master_key_kind,
  DROP CONSTRAINT zone_master_ipv4_prefix,
  DROP CONSTRAINT zone_master_ipv6_prefix,
  ADD CONSTRAINT `zone id must be 1 or more`
    CHECK (id >= 1),
  ADD CONSTRAINT `rate must be 0 to 1000000`
    CHECK (rate IS NOT NULL AND rate BETWEEN 0 AND 1000000),
  ADD CONSTRAINT `window must be 1 to 31622400 seconds`
    CHECK (`window` IS NOT NULL AND `window` BETWEEN 1 AND 31622400),
  ADD CONSTRAINT `mode must be enforce, shadow or off`
    CHECK (mode <> ''),
  ADD CONSTRAINT `counts must be attempts or failures`
    CHECK (counts <> ''),
  ADD CONSTRAINT `reserve_ttl must be 1 second to the window, or NULL`
    CHECK (reserve_ttl IS NULL OR reserve_ttl BETWEEN 1 AND `window`),
  ADD CONSTRAINT `reset_on_success must be TRUE or FALSE`
    CHECK (reset_on_success IN (0, 1)),
  ADD CONSTRAINT `lockout must be 0 to 31622400 seconds`
    CHECK (lockout BETWEEN 0 AND 31622400),
  ADD CONSTRAINT `lockout_factor must be 1 to 100`
    CHECK (lockout_factor BETWEEN 1 AND 100),
  ADD CONSTRAINT `lockout_max must be 1 to 31622400 seconds`
    CHECK (lockout_max BETWEEN 1 AND 31622400),
  ADD CONSTRAINT `lockout_decay must be 1 to 31622400 seconds`
    CHECK (lockout_decay BETWEEN 1 AND 31622400),
  ADD CONSTRAINT `key_kind must be opaque, username or ip`
    CHECK (key_kind <> ''),
  ADD CONSTRAINT `ipv4_prefix must be 1 to 32`
    CHECK (ipv4_prefix BETWEEN 1 AND 32),
  ADD CONSTRAINT `ipv6_prefix must be 1 to 128`
    CHECK (ipv6_prefix BETWEEN 1 AND 128)
