package main

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"velocityd/migrations/roles"
	"velocityd/tools/enginetest"
)

// roleCommand is a command as the role that docs/install.md names for it.
type roleCommand struct {
	args  string
	role  roles.Role
	lacks string // a right without which it fails
	code  int    // with all rights
}

// admin is no role: a command that only an administrator runs, and that its test covers.
const admin roles.Role = "admin"

// roleCommands are in an order in which each finds the rows that it names.
func roleCommands(t *testing.T) []roleCommand {
	t.Helper()
	dir := t.TempDir()
	zones, log, gates := filepath.Join(dir, "zones.yaml"), filepath.Join(dir, "auth.log"),
		fileOf(t, "gates.yaml", rightsGates)
	writeFile(t, zones, "zones:\n  - {id: 7, rate: 5, window: 60}\n")
	writeFile(t, log, "Nov 22 10:00:01 host sshd[100]: Failed password for root from 203.0.113.9 port 4431 ssh2\n")
	return []roleCommand{
		{"migrate up", roles.Owner, "CREATE *", exitSuccess},
		{"migrate status", roles.Owner, "SELECT *", exitSuccess},
		{"serve", admin, "", 0},         // TestTheServicesAccountMayDoEachOperation
		{"dev", admin, "", 0},           // a database that it makes itself
		{"migrate roles", admin, "", 0}, // TestMigrateRolesDoesWhatItsDryRunPrints
		{"migrate down", admin, "", 0},  // TestTheOwnersGrantsAreEnough
		{"zone set 1 --rate 2 --window 3600 --lockout 60 --totals", roles.DBA, "INSERT zone_master", exitSuccess},
		{"zone set 1 --rate 3", roles.DBA, "UPDATE zone_master", exitSuccess},
		{"zone apply --yes " + zones, roles.DBA, "INSERT zone_master", exitSuccess},
		{"zone list", roles.DBA, "SELECT zone_master", exitSuccess},
		{"zone show 1", roles.DBA, "SELECT zone_master", exitSuccess},
		{"zone lint", roles.DBA, "SELECT zone_override", exitFindings},
		{"zone totals 1", roles.DBA, "SELECT zone_hour", exitSuccess},
		{"zone delete --yes 7", roles.DBA, "DELETE zone_master", exitSuccess},
		{"zone restore --yes 4", roles.DBA, "INSERT zone_master", exitSuccess},
		{"override set 1 mallory --action deny --reason x", roles.DBA, "INSERT zone_override", exitSuccess},
		{"override list 1", roles.DBA, "SELECT zone_override", exitSuccess},
		{"override delete 1 mallory", roles.DBA, "DELETE zone_override", exitSuccess},
		{"bucket peek 1 alice", roles.DBA, "SELECT zone_bucket_lock", exitSuccess},
		{"bucket totals 1 alice", roles.DBA, "SELECT zone_bucket_total", exitSuccess},
		{"bucket locked 1", roles.DBA, "SELECT zone_lockout", exitSuccess},
		{"bucket release 1 alice --reason x", roles.DBA, "EXECUTE PROCEDURE release_bucket", exitSuccess},
		{"check 1 alice --attempt-id a", roles.Service, "SELECT zone_attempt", exitSuccess},
		{"check 1 bob", roles.Service, "EXECUTE *", exitSuccess},
		{"outcome 1 failure", roles.Service, "EXECUTE *", exitSuccess},
		{"attempt a", roles.Service, "SELECT zone_attempt", exitSuccess},
		{"txn list", roles.Service, "SELECT zone_txn", exitSuccess},
		{"txn checks", roles.Service, "SELECT zone_txn", exitSuccess},
		{"txn show 1", roles.Service, "SELECT zone_txn", exitSuccess},
		{"txn explain 1", roles.Service, "SELECT zone_audit", exitSuccess},
		{"audit", roles.Owner, "SELECT *", exitSuccess}, // before txns are aged, and no more those of their attempt ids
		{"txn follow --after 1", roles.Service, "SELECT zone_txn", exitSuccess},
		{"txn export", roles.Service, "EXECUTE *", exitSuccess},
		{"events list", roles.Service, "SELECT zone_event", exitSuccess},
		{"events follow --after 1", roles.Service, "SELECT zone_event", exitSuccess},
		{"changes", roles.Service, "SELECT zone_audit", exitSuccess},
		{"webhook add https://hooks.example.com/", roles.Editor, "INSERT webhook", exitSuccess},
		{"webhook list", roles.Editor, "SELECT webhook", exitSuccess},
		{"webhook deliveries 1", roles.Editor, "SELECT webhook_delivery", exitSuccess},
		{"webhook resend 1", roles.Editor, "UPDATE webhook_delivery", exitSuccess},
		{"webhook remove 1", roles.Editor, "DELETE webhook", exitSuccess},
		{"doctor", roles.Service, "INSERT zone_txn", exitSuccess},
		{"gate lint " + gates, roles.Service, "SELECT zone_master", exitSuccess},
		{"replay " + log + " --user-zone 1", roles.Service, "EXECUTE *", exitSuccess},
		{"report --zone 1", roles.Service, "SELECT zone_txn", exitSuccess},
		{"backtest --zone 1 --rate 3", roles.Service, "SELECT zone_txn", exitSuccess},
		{"retain", roles.Owner, "EXECUTE *", exitSuccess},
		{"subject export alice", roles.Owner, "SELECT *", exitSuccess},
		{"subject erase --yes alice --reason x", roles.Owner, "UPDATE *", exitSuccess},
		{"token create auth --scope check", roles.Owner, "INSERT *", exitSuccess},
		{"token list", roles.Owner, "SELECT *", exitSuccess},
		{"token revoke --yes auth", roles.Owner, "UPDATE *", exitSuccess},
	}
}

// TestEachCommandNeedsTheRightsOfItsRole runs each command that talks to a database without one right of the role that
// docs/install.md names for it, and the error names the right. Then it runs it with all of them.
func TestEachCommandNeedsTheRightsOfItsRole(t *testing.T) {
	t.Parallel()
	commands := roleCommands(t)
	for _, name := range databaseCommands(t) {
		if !slices.ContainsFunc(
			commands, func(c roleCommand) bool { return c.args == name || strings.HasPrefix(c.args, name+" ") }) {
			t.Errorf("the command %s has no row in this test", name)
		}
	}
	enginetest.Each(t, func(t *testing.T, engine *enginetest.Engine) {
		d := engine.Empty(t)
		d.LeaveUnaudited() // a key is erased, and txns are older than their answers
		accounts := map[roles.Role]*enginetest.Database{}
		for _, c := range commands {
			if c.role == admin {
				continue
			}
			if accounts[c.role] == nil { // once there are rows that it may read
				accounts[c.role] = d.RoleAccount(t, c.role)
			}
			narrow := accounts[c.role]
			privilege, object, _ := strings.Cut(c.lacks, " ")
			restore := revoke(t, d, narrow, privilege, object)
			r := runAs(t, d, narrow, c.args)
			restore()
			if r.code != exitError || !namesRight(r.stdout+r.stderr, privilege, object) {
				t.Errorf("%s as %s without %s: code %d, %s%s", c.args, c.role, c.lacks, r.code, r.stdout, r.stderr)
			}
			if r := runAs(t, d, narrow, c.args); r.code != c.code {
				t.Errorf("%s as %s: code %d, want %d: %s%s", c.args, c.role, r.code, c.code, r.stdout, r.stderr)
			}
		}
	})
}

// databaseCommands are those that take a DSN, such as "zone set".
func databaseCommands(t *testing.T) (names []string) {
	t.Helper()
	parser := parserOf(t, &cli{}, environment{})
	for _, leaf := range parser.Model.Leaves(false) {
		for _, group := range leaf.AllFlags(false) {
			for _, flag := range group {
				if flag.Name == "dsn" {
					names = append(names, leaf.Path())
				}
			}
		}
	}
	if len(names) < 40 {
		t.Fatalf("only %q take a DSN", names)
	}
	return names
}

// runAs runs a command by an account. One that follows is stopped at its first line.
func runAs(t *testing.T, d, as *enginetest.Database, args string) result {
	t.Helper()
	env := environment{"VELOCITY_DSN": as.DSN}
	if !strings.Contains(args, " follow") {
		return command(env, nil, strings.Fields(args)...)
	}
	// Followed rows come when they have an age.
	enginetest.Exec(t, d.SQL, "UPDATE zone_txn SET created_at = created_at - INTERVAL 1 MINUTE")
	enginetest.Exec(t, d.SQL, "UPDATE zone_event SET created_at = created_at - INTERVAL 1 MINUTE")
	return commandUntil(t, env, 1, strings.Fields(args)...)
}
