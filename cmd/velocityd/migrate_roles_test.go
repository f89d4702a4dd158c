package main

import (
	"io"
	"strings"
	"testing"

	"velocityd/tools/enginetest"
)

// TestMigrateRolesDoesWhatItsDryRunPrints runs the command as a DBA does.
func TestMigrateRolesDoesWhatItsDryRunPrints(t *testing.T) {
	t.Parallel()
	d := enginetest.First(t).Database(t)
	narrow := d.Account(t)
	cfg := configOf(t, narrow.DSN)
	env, account := environment{"VELOCITY_DSN": d.DSN}, cfg.User+"@localhost"
	planned := must(t, env, "migrate", "roles", "--analyst", account, "--dry-run")
	if _, err := narrow.SQL.Exec("SELECT * FROM read_txn"); err == nil {
		t.Error("the dry run has granted something")
	}
	if done := must(t, env, "migrate", "roles", "--analyst", account); done != planned ||
		!strings.Contains(done, "GRANT SELECT ON ") {
		t.Errorf("planned\n%s\ndone\n%s", planned, done)
	}
	if _, err := narrow.SQL.Exec("SELECT * FROM read_txn"); err != nil {
		t.Error(err)
	}
	if again := must(t, env, "migrate", "roles", "--analyst", account); !strings.Contains(
		again, "it has exactly its rights") {
		t.Errorf("a second time: %s", again)
	}
	for _, answer := range []io.Reader{nil, strings.NewReader("n\n")} {
		r := command(env, answer, "migrate", "roles", "--service", account)
		if r.code != exitError || !strings.Contains(r.stdout, "REVOKE SELECT ON ") ||
			!strings.Contains(r.stderr, cfg.User+"'@'localhost' would lose rights") {
			t.Errorf("an account with another role: %+v", r)
		}
	}
	if _, err := narrow.SQL.Exec("SELECT * FROM read_txn"); err != nil {
		t.Errorf("without a yes the account has lost a right: %v", err)
	}
	if other := must(t, env, "migrate", "roles", "--yes", "--service", account,
		"--service-edits-zones"); !strings.Contains(other,
		"REVOKE SELECT ON ") ||
		!strings.Contains(other, "UPDATE, DELETE ON `"+cfg.DBName+"`.`zone_master`") {
		t.Errorf("another role: %s", other)
	}
}
