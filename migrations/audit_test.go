package migrations_test

import (
	"strings"
	"testing"

	"velocityd/db/zonerow"
	"velocityd/tools/enginetest"
)

// audited returns the rows that were recorded since the last call, oldest first, in short.
func audited(t *testing.T, d *enginetest.Database) []string {
	t.Helper()
	lines := rows(t, d, "SELECT CONCAT(subject, ' ', action, ' ', zone_id, ' ', COALESCE(principal, '-'), ' ', "+
		"COALESCE(JSON_VALUE(state_before, '$.rate'), 'none'), '>', COALESCE(JSON_VALUE(state_after, '$.rate'), 'none'), "+
		"' ', COALESCE(JSON_VALUE(state_before, '$.action'), '-'), '>', COALESCE(JSON_VALUE(state_after, '$.action'), "+
		"'-')) AS a FROM zone_audit ORDER BY id")
	enginetest.Exec(t, d.SQL, "DELETE FROM zone_audit")
	for i := range lines {
		lines[i] = strings.TrimPrefix(lines[i], "a=")
	}
	return lines
}

func TestEveryChangeByPlainSQLIsAudited(t *testing.T) {
	t.Parallel()
	const zone, override = " INTO zone_master (id, rate, `window`) VALUES ",
		" INTO zone_override (zone_id, bucket_key, action, rate, `window`) VALUES "
	onEach(t, func(t *testing.T, d *enginetest.Database) {
		conn := session(t, d, "STRICT_ALL_TABLES")
		for i, step := range []struct{ statement, want string }{
			{"INSERT" + zone + "(1, 5, 60), (2, 6, 60)", "zone insert 1 - none>5 ->-; zone insert 2 - none>6 ->-"},
			{"SET @velocityd_principal = 'ann'", ""},
			{"UPDATE zone_master SET rate = rate + 1", "zone update 1 ann 5>6 ->-; zone update 2 ann 6>7 ->-"},
			{"INSERT" + zone + "(1, 9, 60) ON DUPLICATE KEY UPDATE rate = VALUES(rate)", "zone update 1 ann 6>9 ->-"},
			{"REPLACE" + zone + "(2, 8, 60)", "zone delete 2 ann 7>none ->-; zone insert 2 ann none>8 ->-"},
			{
				"INSERT" + override + "(1, 'a', 'limit', 3, 4), (1, 'b', 'deny', NULL, NULL)",
				"override insert 1 ann none>3 ->limit; override insert 1 ann none>none ->deny",
			},
			{"SET @velocityd_principal = NULL", ""},
			{
				"UPDATE zone_override SET action = 'allow', rate = NULL, `window` = NULL WHERE bucket_key = 'a'",
				"override update 1 - 3>none limit>allow",
			},
			{
				"INSERT" + override + "(1, 'b', 'deny', NULL, NULL) ON DUPLICATE KEY UPDATE action = 'allow'",
				"override update 1 - none>none deny>allow",
			},
			{
				"REPLACE" + override + "(1, 'b', 'deny', NULL, NULL)",
				"override delete 1 - none>none allow>-; override insert 1 - none>none ->deny",
			},
			{"SET @velocityd_principal = REPEAT('é', 200)", ""},
			{"DELETE FROM zone_override", "override delete 1 " + strings.Repeat("é", 128) + " none>none allow>-; " +
				"override delete 1 " + strings.Repeat("é", 128) + " none>none deny>-"},
			{"SET @velocityd_principal = ''", ""},
			{"DELETE FROM zone_master WHERE id = 1", "zone delete 1  9>none ->-"},
			{"START TRANSACTION", ""},
			{"DELETE FROM zone_master", ""},
			{"ROLLBACK", ""},
			{"UPDATE IGNORE zone_master SET rate = 7 WHERE id = 99", ""},
		} {
			enginetest.Exec(t, conn, step.statement)
			if strings.HasPrefix(step.statement, "DELETE FROM zone_master") && !strings.Contains(step.statement, "WHERE") {
				continue // in a transaction: no other session sees it
			}
			if got := strings.Join(audited(t, d), "; "); got != step.want {
				t.Errorf("step %d, %s: audited %q, want %q", i, step.statement, got, step.want)
			}
		}
	})
}

func TestAuditTellsTheWholeState(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, d *enginetest.Database) {
		enginetest.Exec(
			t, d.SQL, "INSERT INTO zone_master (id, description, rate, `window`, key_kind) VALUES (1, 'q\"é', 5, 60, 'ip')")
		enginetest.Exec(t, d.SQL, "INSERT INTO zone_override (zone_id, prefix, action, expires_at, reason) "+
			"VALUES (1, '10.0.0.0/8', 'deny', '2030-01-02 03:04:05.000006', 'why')")
		for subject, want := range map[string]string{
			"zone":     "id," + strings.Join(zonerow.Settings.Names(), ",") + ",revision",
			"override": "id,zone_id,bucket_key,prefix,action,rate,window,period_anchor,expires_at,reason,created_by",
		} {
			for _, field := range strings.Split(want, ",") {
				if n := d.Count(t, "SELECT COUNT(*) FROM zone_audit WHERE subject = ? AND state_before IS NULL "+
					"AND JSON_CONTAINS_PATH(state_after, 'one', '$."+field+"')", subject); n != 1 {
					t.Errorf("%s: %d rows tell %s, want 1", subject, n, field)
				}
			}
			if n := d.Count(t, "SELECT JSON_LENGTH(state_after) FROM zone_audit WHERE subject = ?", subject); n != len(
				strings.Split(want, ",")) {
				t.Errorf("%s: tells %d fields", subject, n)
			}
		}
		got := rows(
			t, d, "SELECT JSON_UNQUOTE(JSON_EXTRACT(state_after, '$.description')) AS d FROM zone_audit WHERE subject = 'zone'")
		if len(got) != 1 || got[0] != `d=q"é` {
			t.Errorf("the description became %q", got)
		}
		// The session's account, with any definer of the triggers.
		if n := d.Count(t, "SELECT COUNT(*) FROM zone_audit WHERE changed_by <> SESSION_USER() OR changed_by NOT LIKE '%@%' "+
			"OR changed_at NOT BETWEEN UTC_TIMESTAMP() - INTERVAL 1 HOUR AND UTC_TIMESTAMP(6)"); n != 0 {
			t.Errorf("%d rows were changed by another account or at another time", n)
		}
	})
}

func TestCreatedByIsThePrincipalOrTheAccount(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, d *enginetest.Database) {
		enginetest.Exec(t, d.SQL, "INSERT INTO zone_master (id, rate, `window`) VALUES (1, 5, 60)")
		conn := session(t, d, "STRICT_ALL_TABLES")
		enginetest.Exec(t, conn, "INSERT INTO zone_override (zone_id, bucket_key, action) VALUES (1, 'account', 'deny')")
		enginetest.Exec(t, conn, "SET @velocityd_principal = 'ann'")
		enginetest.Exec(t, conn, "INSERT INTO zone_override (zone_id, bucket_key, action) VALUES (1, 'ann', 'deny')")
		enginetest.Exec(
			t, conn, "INSERT INTO zone_override (zone_id, bucket_key, action, created_by) VALUES (1, 'bob', 'deny', 'bob')")
		enginetest.Exec(t, conn, "UPDATE zone_override SET reason = 'touched'")
		if n := d.Count(t, "SELECT COUNT(*) FROM zone_override WHERE created_by = IF(bucket_key = 'account', "+
			"SESSION_USER(), bucket_key)"); n != 3 {
			t.Errorf("%d of 3 overrides name their creator: %q", n,
				rows(t, d, "SELECT bucket_key, created_by FROM zone_override"))
		}
	})
}
