-- Rows for each table of 0.1.0, by its own routines and triggers, and where the service alone writes, by the service's own
-- statements. It runs in one session, in a database that a released version has made. It never changes: later versions have
-- to keep these rows.
SET @velocityd_principal = 'ann via helpdesk', @velocityd_reason = 'ticket 4711';
INSERT INTO zone_master (id, description, rate, `window`) VALUES (1, 'log-ins of a user, Zürich 🔑', 3, 86400);
INSERT INTO zone_master (id, rate, `window`, key_kind, ipv4_prefix, totals) VALUES (2, 20, 86400, 'ip', 32, TRUE);
INSERT INTO zone_master (id, rate, `window`, counts, reserve_ttl, reset_on_success) VALUES (3, 2, 86400, 'failures', 86400, TRUE);
INSERT INTO zone_master (id, rate, `window`, lockout, lockout_factor) VALUES (4, 1, 60, 31622400, 1.50);
INSERT INTO zone_master (id, rate, `window`, mode) VALUES (5, 1, 86400, 'shadow');
INSERT INTO zone_master (id, rate, period, period_offset) VALUES (6, 2, 'month', -300);
INSERT INTO zone_master (id, rate, `window`, record_blocked) VALUES (7, 1, 86400, 2);
INSERT INTO zone_master (id, rate, `window`, concurrent) VALUES (8, 9, 86400, 1);
INSERT INTO zone_master (id, rate, `window`, repeat_secret) VALUES (9, 1, 86400, 'free');
INSERT INTO zone_master (id, rate, `window`, mode) VALUES (10, 1, 86400, 'off');
INSERT INTO zone_master (id, rate, `window`, key_form, on_failure, keep_days) VALUES (11, 1, 86400, 'hmac', 'block', 500);
INSERT INTO zone_master (id, rate, `window`) VALUES (12, 1, 1);
UPDATE zone_master SET rate = 2, description = 'narrower' WHERE id = 2;
DELETE FROM zone_master WHERE id = 12;
CALL check_velocity(1, 'alice');
CALL check_velocity(1, 'alice');
CALL check_velocity(1, 'alice');
CALL check_velocity(1, 'alice');
CALL check_velocity(1, 'carl');
CALL check_velocity(3, 'erin');
CALL check_velocity_buckets('[{"zone_id": 1, "bucket_key": "bob "}, {"zone_id": 2, "bucket_key": "203.0.113.9"}]', 'attempt-1');
CALL check_velocity_buckets('[{"zone_id": 3, "bucket_key": "erin"}]', 'attempt-2');
CALL check_velocity_buckets('[{"zone_id": 3, "bucket_key": "fred"}]', 'attempt-3');
CALL report_attempt('attempt-1', 'failure');
CALL report_attempt('attempt-2', 'failure');
CALL report_outcomes('[{"attempt_id": "attempt-3", "outcome": "success"}]');
CALL check_velocity(4, 'greg');
CALL check_velocity(4, 'greg');
CALL check_velocity(4, 'hank');
CALL check_velocity(4, 'hank');
CALL release_bucket(4, 'hank', 'ann of support', 'called us');
CALL check_velocity(5, 'ida');
CALL check_velocity(5, 'ida');
CALL check_velocity(6, 'jack');
CALL check_velocity(7, 'kate');
CALL check_velocity(7, 'kate');
CALL check_velocity(7, 'kate');
CALL check_velocity(7, 'kate');
CALL check_velocity(8, 'luke');
CALL check_velocity(8, 'luke');
CALL check_velocity_buckets('[{"zone_id": 9, "bucket_key": "mary", "secret_hash": "0123456789abcdef"}]', NULL);
CALL check_velocity_buckets('[{"zone_id": 9, "bucket_key": "mary", "secret_hash": "0123456789abcdef"}]', NULL);
CALL check_velocity(10, 'nick');
INSERT INTO zone_override (zone_id, bucket_key, action, reason, created_by) VALUES (1, 'olga', 'deny', 'a ban', 'fail2ban');
INSERT INTO zone_override (zone_id, bucket_key, action, rate, `window`) VALUES (1, 'null', 'limit', 9, 60);
INSERT INTO zone_override (zone_id, prefix, action, expires_at) VALUES (2, '198.51.100.0/24', 'deny', '2199-01-01');
INSERT INTO zone_override (zone_id, prefix, action) VALUES (2, '2001:db8::/48', 'allow');
INSERT INTO zone_override (zone_id, bucket_key, action) VALUES (3, 'gone', 'allow');
UPDATE zone_override SET action = 'allow', reason = 'not she' WHERE bucket_key = 'olga';
DELETE FROM zone_override WHERE bucket_key = 'gone';
CALL check_velocity(2, '198.51.100.7');
CALL note_export(1, 'ann', '{"format": "csv", "bucket_key": ["alice", "bob "]}');
INSERT INTO access_token (kind, name, digest, shown, scopes, zones, created_by)
VALUES ('token', 'shop', UNHEX(SHA2('a token', 256)), 'vt_a1b2c', 'check,report', '1,2', 'ann'),
       ('token', 'old', UNHEX(SHA2('another', 256)), 'vt_d3e4f', 'admin', NULL, 'ann');
UPDATE access_token SET revoked_at = UTC_TIMESTAMP(6), revoked_by = 'ann' WHERE name = 'old';
INSERT INTO webhook (url, types, zones, secret, created_at, created_by, position)
VALUES ('https://hooks.example/velocityd', 'bucket.locked', '1,4', 'whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw', UTC_TIMESTAMP(6), 'ann', 0);
INSERT INTO webhook_delivery (webhook_id, event_id, tries, next_at, error)
SELECT webhook.id, event.id, 2, UTC_TIMESTAMP(6), '503'
  FROM webhook
  JOIN zone_event AS event
 WHERE event.type = 'bucket.locked';
INSERT INTO zone_backtest (id, zone_id, state, question, asked_by, began_at, seen_at, ended_at, txns_read, result)
VALUES ('bt1', 1, 'done', '{"rate": 9}', 'ann', UTC_TIMESTAMP(6), UTC_TIMESTAMP(6), UTC_TIMESTAMP(6), 4, '{"attempts": 4}');
INSERT INTO retention_task (name, began_at, ended_at, removed, position) VALUES ('idle_buckets', UTC_TIMESTAMP(6), UTC_TIMESTAMP(6), 7, '[1, "a"]');
UPDATE retention_policy SET keep_days = 90, event_days = 60;
INSERT INTO zone_txn_mark (txn_id, marked_at) SELECT MAX(id), MAX(created_at) FROM zone_txn;
INSERT INTO totals_progress (id, rolled_up_to, final_to, part, pass) VALUES (1, UTC_TIMESTAMP(6), '2026-11-29', 3, 17);
INSERT INTO zone_totals_since (zone_id, since) VALUES (2, UTC_TIMESTAMP(6));
INSERT INTO zone_hour (zone_id, hour, attempts, allowed, blocked, would_block, successes, failures, buckets, final)
VALUES (1, '2026-11-28 10:00', 9, 7, 2, 2, 5, 1, 4, TRUE), (2, '2026-11-28 11:00', 1, 1, 0, 0, 0, 0, NULL, FALSE);
INSERT INTO zone_bucket_total (zone_id, bucket_key, span, begins_at, attempts, allowed, blocked, would_block, successes, failures, last_at)
VALUES (2, '203.0.113.9', 'all', '1970-01-01', 4, 3, 1, 1, 2, 1, '2026-11-28 10:00:00.5');
INSERT INTO subject_erasure (zone_id, bucket_key, pseudonym, erased_at) VALUES (1, 'pia', 'erased:0123456789abcdef', UTC_TIMESTAMP(6));
INSERT INTO velocity_identity (name, value) VALUES ('key 1', 'a fingerprint');
