package roles_test

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/go-sql-driver/mysql"

	"velocityd/migrations"
	"velocityd/migrations/roles"
	"velocityd/tools/enginetest"
)

func TestMain(m *testing.M) { enginetest.Main(m) }

// account names the account of a database for GRANT, and the database.
func account(t *testing.T, d *enginetest.Database) (as roles.Account, database string) {
	t.Helper()
	cfg, err := mysql.ParseDSN(d.DSN)
	if err != nil {
		t.Fatal("parse dsn: unreadable")
	}
	return roles.Account{User: cfg.User, Host: "localhost"}, cfg.DBName
}

// assign gives an account a role as 'migrate roles' does.
func assign(t *testing.T, d *enginetest.Database, role roles.Role, as roles.Account) roles.Reassignment {
	t.Helper()
	done, err := roles.Assign(t.Context(), migrations.MySQL, d.DSN, []roles.Assignment{{Role: role, Account: as}})
	if err != nil || len(done) != 1 {
		t.Fatalf("%s: %v, %v", role, done, err)
	}
	return done[0]
}

// isRefused says that an error is one for want of a right.
func isRefused(err error) bool {
	var engine *mysql.MySQLError
	return errors.As(err, &engine) && slices.Contains([]uint16{1044, 1142, 1143, 1227, 1370}, engine.Number)
}

// writes are statements that change rows that only the owner and the procedures may change.
func writes() []string {
	return []string{
		"UPDATE zone_txn SET blocked = 1", "DELETE FROM zone_txn", "TRUNCATE zone_txn",
		"DELETE FROM zone_attempt", "DELETE FROM zone_bucket_lock",
		"INSERT INTO zone_audit (changed_at, changed_by, subject, action, zone_id) VALUES (NOW(), 'x', 'zone', 'insert', 1)",
		"UPDATE zone_audit SET changed_by = 'x'", "DELETE FROM zone_audit",
		"UPDATE schema_migrations SET version = 1", "INSERT INTO zone_override_prefix_length VALUES (1, 4, 8)",
		"CREATE TABLE own (id INT)", "CREATE TEMPORARY TABLE own (id INT)", "ALTER TABLE zone_txn ADD COLUMN own INT",
		"DROP TABLE zone_txn",
		"DROP VIEW read_txn",
		"CREATE TRIGGER own BEFORE INSERT ON zone_txn FOR EACH ROW SET @own = 1", "DROP TRIGGER zone_master_after_delete",
		"CREATE PROCEDURE own() SET @own = 1", "DROP PROCEDURE check_velocity", "CREATE VIEW own AS SELECT 1",
		"LOCK TABLES zone_txn READ", "GRANT SELECT ON zone_txn TO CURRENT_USER()", "SELECT * FROM mysql.user",
		"INSERT INTO read_txn (zone_id) VALUES (1)", "DELETE FROM read_txn", "UPDATE read_zone SET rate = 9",
		"DELETE FROM read_audit",
	}
}

// internals call procedures that are not for callers and would change the history. To call
// them is not refused to the service, which may call all procedures: their work is, because
// they run with the caller's own rights. They must find something to do: txns of bob.
func internals() []string {
	return []string{
		"CALL uncount_bucket(1, 'bob', UTC_TIMESTAMP() - INTERVAL 1 DAY)",
		`CALL record_outcomes('[{"txn_id":1,"outcome":"success"}]', @answers)`,
	}
}

const edits = "UPDATE zone_master SET rate = 6 WHERE id = 1"

// TestEachRoleIsRefusedForbiddenActions logs in as each.
func TestEachRoleIsRefusedForbiddenActions(t *testing.T) {
	t.Parallel()
	public := []string{
		"CALL check_velocity(1, 'alice')", `CALL check_velocity_buckets('[{"zone_id":1,"bucket_key":"alice"}]', NULL)`,
		"CALL report_outcomes('[]')", "CALL peek_velocity(1, 'alice')",
		"CALL release_bucket(1, 'alice', 'me', 'why')", "CALL note_export(1, 'me', '{}')",
	}
	tables := []string{
		"SELECT * FROM zone_txn", "SELECT * FROM zone_attempt", "SELECT * FROM zone_master", "SELECT * FROM zone_override",
		"SELECT * FROM zone_bucket_lock",
	}
	views := []string{
		"SELECT * FROM read_txn", "SELECT * FROM read_history", "SELECT * FROM read_zone", "SELECT * FROM read_override",
		"SELECT * FROM read_audit", "SELECT * FROM read_zone_hour", "SELECT * FROM read_bucket_total",
	}
	lists := []string{
		"CALL list_txns(1, 'alice', NULL, NULL, 9)", "CALL list_txns(NULL, NULL, NOW() - INTERVAL 1 DAY, NULL, NULL)",
		"CALL first_txn_since(NOW() - INTERVAL 1 HOUR, @first)", "CALL explain_txn(1)",
	}
	more := []string{"SELECT * FROM read_bucket", "SELECT * FROM read_attempt"}
	internal := slices.Concat(internals(), []string{
		"CALL make_bucket(1, 'eve', 'opaque', 0)", "CALL forget_tally(1, 'alice', NOW())", "CALL forget_attempts('[]')",
		"CALL repeat_txns('[]', NOW())",
	})
	insert := []string{
		"INSERT INTO zone_txn (created_at, zone_id, bucket_key, blocked, would_block, counted) VALUES (NOW(), 1, 'a', 0, " +
			"0, 1)",
	}
	audit := []string{"SELECT * FROM zone_audit", "SELECT changed_by, principal FROM zone_audit"}
	changed := []string{
		"SELECT id, changed_at, subject, zone_id, state_before, state_after FROM zone_audit WHERE id > 0 ORDER BY id DESC",
	}
	cases := map[roles.Role]struct{ may, mustNot []string }{
		roles.Service: {
			slices.Concat(tables, public, insert, changed, audit),
			slices.Concat(writes(), internals(), views, more, []string{edits}),
		},
		roles.Editor: {
			slices.Concat(tables, public, insert, changed, audit, []string{edits}),
			slices.Concat(writes(), internals(), views, more),
		},
		roles.Analyst: {
			slices.Concat(views, more, lists),
			slices.Concat(writes(), internal, public, tables, audit, changed, insert, []string{edits}),
		},
		roles.DBA: {
			slices.Concat(tables, views, more, lists, audit, public, []string{edits}),
			slices.Concat(writes(), internal, insert),
		},
		roles.Auditor: {
			slices.Concat(views, lists),
			slices.Concat(writes(), internal, public, tables, audit, more, insert, []string{edits}),
		},
	}
	enginetest.Each(t, func(t *testing.T, engine *enginetest.Engine) {
		d := engine.Database(t)
		enginetest.Exec(t, d.SQL, "INSERT INTO zone_master (id, rate, `window`) VALUES (1, 5, 60)")
		enginetest.Exec(t, d.SQL, "CALL check_velocity(1, 'alice')")
		enginetest.Exec(t, d.SQL, "CALL check_velocity(1, 'bob')")
		for role, c := range cases {
			narrow := d.Account(t)
			as, _ := account(t, narrow)
			assign(t, d, role, as)
			for _, statement := range c.may {
				if _, err := narrow.SQL.Exec(statement); err != nil {
					t.Errorf("%s: %s: %v", role, statement, err)
				}
			}
			for _, statement := range c.mustNot {
				if _, err := narrow.SQL.Exec(statement); !isRefused(err) {
					t.Errorf("%s: %s: %v, want that it is refused for want of a right", role, statement, err)
				}
			}
		}
	})
}

// TestRolesAreWhatTheDryRunSays also takes away excess rights, in every way in which they
// can be granted.
func TestRolesAreWhatTheDryRunSays(t *testing.T) {
	t.Parallel()
	enginetest.Each(t, func(t *testing.T, engine *enginetest.Engine) {
		d := engine.Database(t)
		narrow := d.Account(t)
		as, database := account(t, narrow)
		escaped := strings.ReplaceAll(database, "_", `\_`)
		for _, much := range []string{
			"DO 0",
			"GRANT ALL ON " + database + ".* TO " + as.String() + " WITH GRANT OPTION",
			"GRANT DELETE, EVENT ON `" + escaped + "`.* TO " + as.String(),
			"GRANT ALL ON zone_txn TO " + as.String(),
			"GRANT SELECT (id, rate), UPDATE (rate) ON zone_master TO " + as.String(),
			"GRANT UPDATE ON access_token TO " + as.String(),
			"GRANT EXECUTE, ALTER ROUTINE ON PROCEDURE release_bucket TO " + as.String() + " WITH GRANT OPTION",
		} {
			enginetest.Exec(t, d.SQL, much)
			for _, role := range []roles.Role{roles.Service, roles.Editor, roles.Analyst, roles.DBA, roles.Auditor} {
				assignment := []roles.Assignment{{Role: role, Account: as}}
				planned, err := roles.Plan(t.Context(), migrations.MySQL, d.DSN, assignment)
				if err != nil {
					t.Fatal(err)
				}
				done := assign(t, d, role, as)
				if !slices.Equal(planned[0].Statements, done.Statements) || len(done.Statements) == 0 {
					t.Errorf("%s after %s: planned %q, done %q", role, much, planned[0].Statements, done.Statements)
				}
				if again := assign(t, d, role, as); len(again.Statements) != 0 {
					t.Errorf("%s after %s: a second time does %q", role, much, again.Statements)
				}
				grants := roles.ReadGrants(migrations.MySQL, database, grantsOf(t, d, as))
				if lacks, exceeds := grants.Lacks(role), grants.Exceeds(role); len(lacks)+len(exceeds) > 0 {
					t.Errorf("%s after %s: lacks %v, has too much %v", role, much, lacks, exceeds)
				}
			}
		}
	})
}

func grantsOf(t *testing.T, d *enginetest.Database, as roles.Account) []string {
	t.Helper()
	found, err := enginetest.Texts(d.SQL, "SHOW GRANTS FOR "+as.String())
	if err != nil {
		t.Fatal(err)
	}
	return slices.Concat(found...)
}

func TestRightsBeyondDatabaseAreNamedAndLeftAlone(t *testing.T) {
	t.Parallel()
	enginetest.Each(t, func(t *testing.T, engine *enginetest.Engine) {
		d := engine.Database(t)
		narrow := d.Account(t)
		as, database := account(t, narrow)
		role := strings.ToLower(rand.Text()[:10])
		enginetest.Exec(t, d.SQL, "CREATE ROLE "+role)
		t.Cleanup(func() { _, _ = d.SQL.ExecContext(context.Background(), "DROP ROLE "+role) })
		for _, right := range []string{"PROCESS ON *.*", "SELECT ON `" + database[:len(database)-1] + "%`.*", role} {
			enginetest.Exec(t, d.SQL, "GRANT "+right+" TO "+as.String())
		}
		before := len(grantsOf(t, d, as))
		done := assign(t, d, roles.Analyst, as)
		list := strings.Join(done.Elsewhere, "; ")
		for _, want := range []string{"PROCESS on all databases", "SELECT on the databases " + database[:len(database)-1] +
			"%", "the role '" +
			role} {
			if !strings.Contains(list, want) {
				t.Errorf("%q is not named in %q", want, list)
			}
		}
		if after := len(grantsOf(t, d, as)); after != before+len(roles.Rights(migrations.MySQL, roles.Analyst)) {
			t.Errorf("%d lines of grants have become %d", before, after)
		}
	})
}

func TestRolesAreRefusedToWhomTheyWouldHarm(t *testing.T) {
	t.Parallel()
	enginetest.Each(t, func(t *testing.T, engine *enginetest.Engine) {
		d := engine.Empty(t)
		owner := d.Account(t, "ALL ON *")
		ownerAccount, _ := account(t, owner)
		there, _ := account(t, d.Account(t))
		one := roles.Assignment{Role: roles.Analyst, Account: there}
		if _, err := roles.Assign(t.Context(), migrations.MySQL, d.DSN, []roles.Assignment{one}); err == nil ||
			!strings.Contains(err.Error(), "migrate up") {
			t.Errorf("without a schema: %v", err)
		}
		enginetest.Migrate(t, owner.DSN)
		for want, assignments := range map[string][]roles.Assignment{
			"account 'nobody_here'@'%' does not exist; make it by: CREATE USER 'nobody_here'@'%'": {
				one, {Role: roles.DBA, Account: roles.Account{User: "nobody_here", Host: "%"}},
			},
			"owns the schema": {one, {Role: roles.DBA, Account: ownerAccount}},
			"logged in as":    {one, {Role: roles.DBA, Account: roles.Account{User: "root", Host: "localhost"}}},
			"named twice":     {one, {Role: roles.DBA, Account: there}},
		} {
			_, err := roles.Assign(t.Context(), migrations.MySQL, d.DSN, assignments)
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%v, want %q", err, want)
			}
		}
		if _, err := roles.Assign(t.Context(), migrations.MySQL, owner.DSN, []roles.Assignment{one}); err == nil ||
			!strings.Contains(err.Error(), "as an administrator") {
			t.Errorf("as the owner: %v", err)
		}
		if lines := grantsOf(t, d, there); len(lines) != 1 {
			t.Errorf("a refused run has granted %q", lines)
		}
	})
}

func TestParseAccountTakesWhatPeopleWrite(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"velocity": "'velocity'@'%'", "velocity@db.Example": "'velocity'@'db.example'",
		"'velocity'@'10.0.0.%'": "'velocity'@'10.0.0.%'", "`a`@`b`": "'a'@'b'", `"a"@"b"`: "'a'@'b'", "a@b@c": "'a@b'@'c'",
		"": "", "@host": "", "a@": "", "a'b": "", `a\b`: "", "a\nb@c": "", "''@'h'": "", "a'@'b; DROP": "",
	} {
		account, err := roles.ParseAccount(text)
		if got := account.String(); (err == nil) != (want != "") || want != "" && got != want {
			t.Errorf("%q is %s, %v, want %q", text, got, err, want)
		}
	}
}

// TestGrantsOnAProcedureOutliveItsReplacement makes every procedure anew, as an upgrade does.
func TestGrantsOnAProcedureOutliveItsReplacement(t *testing.T) {
	t.Parallel()
	enginetest.Each(t, func(t *testing.T, engine *enginetest.Engine) {
		d := engine.Database(t)
		caller := d.Account(t)
		as, _ := account(t, caller)
		assign(t, d, roles.DBA, as)
		enginetest.Exec(t, d.SQL, "GRANT EXECUTE, ALTER ROUTINE ON PROCEDURE check_velocity TO "+as.String()+
			" WITH GRANT OPTION")
		want := grantsOf(t, d, as)
		d.Outdate(t)
		done, err := migrations.Up(t.Context(), migrations.MySQL, d.DSN)
		if err != nil || len(done.Ungranted) != 0 {
			t.Errorf("up: %+v, %v", done, err)
		}
		slices.Sort(want)
		got := grantsOf(t, d, as)
		slices.Sort(got)
		if !slices.Equal(got, want) {
			t.Errorf("the grants are\n%s\nand were\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
		}
	})
}

// TestUpSaysWhenItCannotKeepGrants migrates as an account that may not see the grants of
// others, and as one that sees them and must not grant.
func TestUpSaysWhenItCannotKeepGrants(t *testing.T) {
	t.Parallel()
	enginetest.Each(t, func(t *testing.T, engine *enginetest.Engine) {
		d := engine.Empty(t)
		owner := d.RoleAccount(t, roles.Owner)
		enginetest.Migrate(t, owner.DSN)
		ownerAccount, _ := account(t, owner)
		as, _ := account(t, d.Account(t))
		assign(t, d, roles.DBA, as)
		older := func() { owner.Outdate(t, "check_velocity", "make_bucket", "read_txn") }
		replaces := !strings.HasPrefix(engine.Name, "mariadb") // which loses nothing
		older()
		enginetest.Exec(t, d.SQL, "GRANT SELECT ON mysql.procs_priv TO "+ownerAccount.String())
		_, err := migrations.Up(t.Context(), migrations.MySQL, owner.DSN)
		if (err != nil) != replaces || replaces &&
			!strings.Contains(err.Error(), "keep the grants on procedure check_velocity") {
			t.Errorf("must not grant: %v", err)
		}
		if lacks := roles.ReadGrants(migrations.MySQL, databaseOf(t, d), grantsOf(t, d, as)).Lacks(roles.DBA); len(
			lacks) != 0 {
			t.Errorf("lost: %v", lacks)
		}
		enginetest.Exec(t, d.SQL, "REVOKE SELECT ON mysql.procs_priv FROM "+ownerAccount.String())
		older()
		done, err := migrations.Up(t.Context(), migrations.MySQL, owner.DSN)
		names := fmt.Sprint(done.Ungranted)
		if err != nil || (names == "[procedure check_velocity procedure make_bucket]") != replaces {
			t.Errorf("may not see: %s, %v", names, err)
		}
	})
}

func databaseOf(t *testing.T, d *enginetest.Database) string {
	t.Helper()
	_, database := account(t, d)
	return database
}

// An account with the rights of a role on portable tables has nothing to be granted, and loses
// the rights that are too much.
func TestPortableRolesAreGranted(t *testing.T) {
	t.Parallel()
	d := enginetest.Portable(t)
	account := roles.Account{User: strings.ToLower(rand.Text()[:12]), Host: "localhost"}
	enginetest.Exec(t, d.SQL, "CREATE USER "+account.String())
	t.Cleanup(func() { _, _ = d.SQL.Exec("DROP USER " + account.String()) })
	enginetest.Exec(t, d.SQL, "GRANT DELETE ON zone_txn TO "+account.String())
	for _, role := range []roles.Role{roles.Service, roles.DBA, roles.Analyst, roles.Editor, roles.Auditor} {
		list := []roles.Assignment{{Role: role, Account: account}}
		done, err := roles.Assign(t.Context(), migrations.TiDB, d.DSN, list)
		if err != nil || len(done) != 1 || len(done[0].Statements) == 0 {
			t.Errorf("%s: %+v, %v", role, done, err)
			continue
		}
		again, err := roles.Plan(t.Context(), migrations.TiDB, d.DSN, list)
		if err != nil || len(again[0].Statements) != 0 {
			t.Errorf("%s: the second time there is to do: %+v, %v", role, again, err)
		}
	}
	if _, err := roles.Plan(t.Context(), migrations.Vitess, d.DSN, nil); !errors.Is(err, roles.ErrNoAccounts) {
		t.Errorf("on Vitess: %v", err)
	}
}
