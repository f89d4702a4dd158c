package main

import (
	"strings"
	"testing"

	"velocityd/db/dbtest"
)

// TestRetainRemovesWhatItsDryRunNames runs as the account of the service, which itself may delete no txn.
func TestRetainRemovesWhatItsDryRunNames(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, engine *dbtest.Engine) {
		d := engine.Database(t)
		d.LeaveUnaudited()
		dbtest.Exec(t, d.SQL, "ALTER TABLE zone_txn PARTITION BY RANGE COLUMNS (created_at) ("+
			"PARTITION p20200101 VALUES LESS THAN ('2020-01-02'), PARTITION later VALUES LESS THAN (MAXVALUE))")
		dbtest.Exec(t, d.SQL, "INSERT INTO zone_txn (created_at, zone_id, bucket_key, blocked, would_block, counted) VALUES "+
			"('2020-01-01', 1, 'old', 0, 0, 1), (UTC_TIMESTAMP(), 1, 'new', 0, 0, 1)")
		env := environment{"VELOCITY_DSN": d.ServiceAccount(t).DSN}
		dry := command(env, nil, "retain", "--dry-run")
		if dry.code != exitFine || !strings.Contains(dry.stdout, "partition p20200101") {
			t.Errorf("--dry-run: exit code %d, %s%s", dry.code, dry.stdout, dry.stderr)
		}
		if n := d.Count(t, "SELECT COUNT(*) FROM zone_txn"); n != 2 {
			t.Fatalf("--dry-run has left %d txns", n)
		}
		done := command(env, nil, "retain")
		if done.code != exitFine || !strings.Contains(done.stdout, "old_partitions") {
			t.Errorf("exit code %d, %s%s", done.code, done.stdout, done.stderr)
		}
		if n := d.Count(t, "SELECT COUNT(*) FROM zone_txn WHERE bucket_key = 'new'"); n != 1 || d.Count(t, "SELECT COUNT(*) FROM zone_txn") != 1 {
			t.Error("the old txn is left, or the new one gone")
		}
		dbtest.Exec(t, d.SQL, "DROP PROCEDURE retain_step")
		if failed := command(env, nil, "retain"); failed.code != exitError || !strings.Contains(failed.stdout, "failed") {
			t.Errorf("without a procedure: exit code %d, %s%s", failed.code, failed.stdout, failed.stderr)
		}
	})
}
