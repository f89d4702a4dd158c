package main

import (
	"strings"
	"testing"

	"velocityd/migrations/roles"
	"velocityd/tools/enginetest"
)

// TestAuditEndsWithFour runs as the account of a DBA, which may read everything.
func TestAuditEndsWithFour(t *testing.T) {
	t.Parallel()
	d := enginetest.First(t).Database(t)
	d.LeaveUnaudited()
	enginetest.Exec(t, d.SQL, "INSERT INTO zone_master (id, rate, `window`) VALUES (1, 1, 3600)")
	enginetest.Exec(t, d.SQL, "UPDATE zone_audit SET changed_at = changed_at - INTERVAL 1 DAY")
	attempt := "INSERT INTO zone_txn (created_at, zone_id, bucket_key, blocked, would_block, counted) " +
		"VALUES (UTC_TIMESTAMP(6) - INTERVAL 1 MINUTE, 1, 'alice', 0, 0, 1)"
	env := environment{"VELOCITY_DSN": d.RoleAccount(t, roles.DBA).DSN}
	for _, c := range []struct {
		args, output string
		code         int
	}{
		{"audit", "1 txn until ", exitSuccess},
		{"audit --since 30s --json", `{"txns":`, exitSuccess},
		{"audit --since yesterday", "", exitUsage},
		{"audit --findings 0", "", exitUsage},
		{"audit", "over_rate   txn 2 of zone 1 at ", exitFindings},
		{"audit --json", `{"kind":"over_rate","zone_id":1,"txn_id":"2",`, exitFindings},
		{"audit --findings 1", "there may be more", exitFindings},
	} {
		if n := d.Count(t, "SELECT COUNT(*) FROM zone_txn"); n == 0 || n == 1 && c.code == exitFindings {
			enginetest.Exec(t, d.SQL, attempt)
		}
		r := command(env, nil, strings.Fields(c.args)...)
		if r.code != c.code || !strings.Contains(r.stdout, c.output) || strings.Contains(r.stdout, "alice") {
			t.Errorf("%s: %+v", c.args, r)
		}
	}
}
