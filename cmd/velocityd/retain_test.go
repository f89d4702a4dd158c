package main

import (
	"net/http"
	"strings"
	"testing"

	"velocityd/tools/enginetest"
)

// TestRetainRemovesWhatItsDryRunNames runs as the account of the service, which itself may delete no txn.
func TestRetainRemovesWhatItsDryRunNames(t *testing.T) {
	t.Parallel()
	enginetest.One(t, func(t *testing.T, engine *enginetest.Engine) {
		d := engine.Database(t)
		d.LeaveUnaudited()
		enginetest.Exec(t, d.SQL, "ALTER TABLE zone_txn PARTITION BY RANGE COLUMNS (created_at) ("+
			"PARTITION p20200101 VALUES LESS THAN ('2020-01-02'), PARTITION later VALUES LESS THAN (MAXVALUE))")
		enginetest.Exec(t, d.SQL, "INSERT INTO zone_txn (created_at, zone_id, bucket_key, blocked, would_block, counted) "+
			"VALUES ('2020-01-01', 1, 'old', 0, 0, 1), (UTC_TIMESTAMP(), 1, 'new', 0, 0, 1)")
		for _, old := range []string{
			"zone_event (created_at, type, data) VALUES ('2020-01-01', 'zone.updated', '{}')",
			"zone_lockout (zone_id, bucket_key, locked_at, locked_until, txn_id) VALUES (1, 'old', '2020-01-01', " +
				"'2020-01-02', 1)",
			"zone_backtest (id, zone_id, state, question, began_at, seen_at) VALUES ('old', 1, 'done', '{}', '2020-01-01', " +
				"'2020-01-01')",
			"zone_txn_mark (txn_id, marked_at) VALUES (1, '2020-01-01 00:07:00')",
			"zone_attempt (attempt_id, created_at, expires_at, answer) VALUES ('old', '2020-01-01', '2020-01-02', '[]')",
			"zone_bucket_total VALUES (1, 'old', 'hour', '2020-01-01', 1, 1, 0, 0, 0, 0, '2020-01-01')",
			"totals_progress (id, rolled_up_to, final_to) VALUES (1, UTC_TIMESTAMP(), UTC_TIMESTAMP())",
			"zone_audit (changed_at, changed_by, subject, action, zone_id) VALUES " +
				"('2020-01-01', 'x', 'history', 'export', 9), ('2020-01-02', 'x', 'history', 'export', 9)",
		} {
			enginetest.Exec(t, d.SQL, "INSERT INTO "+old)
		}
		enginetest.Exec(t, d.SQL, "UPDATE retention_policy SET audit_days = 30")
		env := environment{"VELOCITY_DSN": d.ServiceAccount(t).DSN}
		dry := command(env, nil, "retain", "--dry-run")
		for _, leaves := range []string{
			"partition p20200101", "events, about 1 row", "lockouts that have ended, about 1 row", "back-tests, about 1 row",
			"marks of ids, about 1 row", "attempt ids, about 1 row", "totals of each hour, about 1 row", "changes, about 2 rows",
		} {
			if dry.code != exitSuccess || !strings.Contains(dry.stdout, leaves) {
				t.Errorf("--dry-run does not say %s: exit code %d, %s%s", leaves, dry.code, dry.stdout, dry.stderr)
			}
		}
		if n := d.Count(t, "SELECT COUNT(*) FROM zone_txn"); n != 2 {
			t.Fatalf("--dry-run has left %d txns", n)
		}
		done := command(env, nil, "retain")
		if done.code != exitSuccess || !strings.Contains(done.stdout, "old_partitions") {
			t.Errorf("exit code %d, %s%s", done.code, done.stdout, done.stderr)
		}
		if n := d.Count(t, "SELECT COUNT(*) FROM zone_txn WHERE bucket_key = 'new'"); n != 1 ||
			d.Count(t, "SELECT COUNT(*) FROM zone_txn") != 1 {
			t.Error("the old txn is left, or the new one gone")
		}
		// The newest change of a subject stays.
		if dry := command(env, nil, "retain", "--dry-run"); strings.Count(dry.stdout, "\n") != 1 {
			t.Errorf("after the work --dry-run says %s", dry.stdout)
		}
		enginetest.Exec(t, d.SQL, "DROP PROCEDURE retain_step")
		if failed := command(env, nil, "retain"); failed.code != exitError || !strings.Contains(failed.stdout, "failed") {
			t.Errorf("without a procedure: exit code %d, %s%s", failed.code, failed.stdout, failed.stderr)
		}
	})
}

func TestOneOfTwoServingInstancesCarriesOutRetention(t *testing.T) {
	t.Parallel()
	d := enginetest.First(t).Database(t)
	env := environment{"VELOCITY_DSN": d.ServiceAccount(t).DSN, "VELOCITY_RETENTION": "on"}
	first, second := start(t, env, "serve"), start(t, env, "serve")
	enginetest.Eventually(t, "all tasks have ended", func() bool {
		return d.Count(t, "SELECT COUNT(*) > 6 AND SUM(ended_at IS NULL) = 0 FROM retention_task") == 1
	})
	for _, i := range []*instanceUnderTest{first, second} {
		r, err := request(i.url+"/v1/retention", "")
		if err != nil || r.status != http.StatusOK || !strings.Contains(r.body, "partitions_ahead") ||
			strings.Contains(r.body, `"error"`) {
			t.Errorf("got %d %s, %v", r.status, r.body, err)
		}
	}
	if n := d.Count(t, "SELECT COUNT(*) FROM information_schema.partitions WHERE table_schema = DATABASE() "+
		"AND table_name = 'zone_txn'"); n < 2 {
		t.Errorf("got %d partitions, want some ahead", n)
	}
}
