package db

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"

	"velocityd/db/session"
	"velocityd/internal/engine"
	"velocityd/tools/enginetest"
)

// probe returns a probe of a database, on the engine that it is if none is named, that is patient with a slow machine.
func probe(t *testing.T, dsn string, on ...engine.Engine) *Probe {
	t.Helper()
	p, err := OpenProbe(session.Options{DSN: dsn, Engine: cmp.Or(append(on, "")...), ConnectTimeout: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	enginetest.AtEnd(t, func() { _ = p.Close() })
	return p
}

// accountOf names an account of dbtest, and its database, for GRANT.
func accountOf(t *testing.T, d *enginetest.Database) (account, database string) {
	t.Helper()
	cfg, err := mysql.ParseDSN(d.DSN)
	if err != nil {
		t.Fatal("parse dsn: unreadable")
	}
	return "'" + cfg.User + "'@'localhost'", cfg.DBName
}

// ready asks with a deadline that a slow machine keeps.
func ready(p *Probe) error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	return p.Ready(ctx)
}

// wantUnready wants a reason that says a text, and that names no account.
func wantUnready(t *testing.T, state string, err error, want string) {
	t.Helper()
	var unready *UnreadyError
	if !errors.As(err, &unready) || !strings.Contains(err.Error(), want) {
		t.Errorf("%s: %v (%v), want %q", state, err, errors.Unwrap(err), want)
		return
	}
	for _, secret := range []string{"localhost", "@", "'u", "velocityd_test_", ".sock"} {
		if strings.Contains(err.Error(), secret) {
			t.Errorf("%s: the reason names %q: %v", state, secret, err)
		}
	}
}

func TestProveTellsWhatKeepsChecksFromBeingDecided(t *testing.T) { //nolint:funlen // a table of cases
	t.Parallel()
	enginetest.Each(t, func(t *testing.T, engine *enginetest.Engine) {
		d := engine.Database(t)
		narrow := d.ServiceAccount(t)
		account, name := accountOf(t, narrow)
		p := probe(t, narrow.DSN)
		run := func(statement string, args ...any) func() {
			return func() { t.Helper(); enginetest.Exec(t, d.SQL, fmt.Sprintf(statement, args...)) }
		}
		migrate := func() { enginetest.Migrate(t, d.DSN) }
		holder := sqlSession(t, d)
		for _, state := range []struct {
			name     string
			do, undo func()
			want     string // nothing: checks can be decided
		}{
			{"all is there", func() {}, func() {}, ""},
			{
				"the lone check's procedure is missing", run("DROP PROCEDURE check_velocity_by_rule"), migrate,
				"procedure check_velocity_by_rule, or one that it calls, is missing",
			},
			{"a procedure that it calls is missing", run("DROP PROCEDURE make_bucket"), migrate, "run 'velocityd migrate up'"},
			{
				"the batch's procedure is missing", run("DROP PROCEDURE forget_attempts"), migrate,
				"procedure forget_attempts, or one that it calls, is missing",
			},
			{
				"the procedure that counts is missing", run("DROP PROCEDURE repeat_txns"), migrate,
				"procedure repeat_txns, or one that it calls, is missing",
			},
			{
				"the outcomes' procedure is missing", run("DROP PROCEDURE report_outcomes"), migrate,
				"procedure report_outcomes, or one that it calls, is missing",
			},
			{
				"no EXECUTE", run("REVOKE EXECUTE ON %s.* FROM %s", name, account),
				run("GRANT EXECUTE ON %s.* TO %s", name, account),
				"lacks the right EXECUTE on procedure check_velocity_by_rule: grant it",
			},
			{
				"no INSERT of txns", run("REVOKE INSERT ON %s.zone_txn FROM %s", name, account),
				run("GRANT INSERT ON %s.zone_txn TO %s", name, account),
				"lacks the right INSERT on table zone_txn: grant it",
			},
			{
				"no INSERT of attempts", run("REVOKE INSERT ON %s.zone_attempt FROM %s", name, account),
				run("GRANT INSERT ON %s.zone_attempt TO %s", name, account),
				"lacks the right INSERT on table zone_attempt: grant it",
			},
			{
				"no UPDATE of locks", run("REVOKE UPDATE ON %s.zone_bucket_lock FROM %s", name, account),
				run("GRANT UPDATE ON %s.zone_bucket_lock TO %s", name, account),
				"on table zone_bucket_lock: grant it",
			},
			{
				"zone_txn is renamed", run("RENAME TABLE zone_txn TO zone_away"), run("RENAME TABLE zone_away TO zone_txn"),
				"table zone_txn is missing",
			},
			{
				"zone_attempt is renamed", run("RENAME TABLE zone_attempt TO zone_away"),
				run("RENAME TABLE zone_away TO zone_attempt"), "table zone_attempt is missing",
			},
			{
				"zone_master is renamed", run("RENAME TABLE zone_master TO zone_away"),
				run("RENAME TABLE zone_away TO zone_master"), "is missing: rename it back",
			},
			{
				"the index is renamed", run("ALTER TABLE zone_txn RENAME INDEX zone_txn_window TO away"),
				run("ALTER TABLE zone_txn RENAME INDEX away TO zone_txn_window"), "table zone_txn is not as this program needs it",
			},
			{
				"zone_txn is locked", func() { enginetest.Exec(t, holder, "LOCK TABLES zone_txn WRITE") },
				func() { enginetest.Exec(t, holder, "UNLOCK TABLES") },
				"table zone_txn is locked",
			},
			{
				"ids are used up",
				run(
					"INSERT INTO zone_txn (id, created_at, zone_id, bucket_key, blocked, would_block, counted) VALUES " +
						"(18446744073709551614, UTC_TIMESTAMP(6), 1, 'x', 0, 0, 0)"),
				func() { run("DELETE FROM zone_txn")(); run("ALTER TABLE zone_txn AUTO_INCREMENT = 1")() },
				"the ids of zone_txn are used up",
			},
			{"a zone and a bucket are held", func() {
				d.SetZone(t, zone(1, 5, time.Hour))
				t.Cleanup(d.Hold(t, user("alice")))
			}, func() {}, ""},
		} {
			state.do()
			if err := ready(p); state.want != "" {
				wantUnready(t, state.name, err, state.want)
			} else if err != nil {
				t.Errorf("%s: %v (%v)", state.name, err, errors.Unwrap(err))
			}
			state.undo()
			if err := ready(p); err != nil {
				t.Errorf("after %s: %v (%v)", state.name, err, errors.Unwrap(err))
			}
		}
	})
}

func TestProveLeavesNothing(t *testing.T) {
	t.Parallel()
	enginetest.Each(t, func(t *testing.T, engine *enginetest.Engine) {
		d := engine.Database(t, zone(1, 5, time.Hour))
		p := probe(t, d.ServiceAccount(t).DSN)
		for range 20 {
			if err := ready(p); err != nil {
				t.Fatal(err)
			}
		}
		for _, table := range []string{"zone_txn", "zone_attempt", "zone_bucket_lock", "zone_audit"} {
			where := ""
			if table == "zone_audit" {
				where = " WHERE subject <> 'zone'"
			}
			if n := d.Count(t, "SELECT COUNT(*) FROM "+table+where); n != 0 {
				t.Errorf("%d rows in %s", n, table)
			}
		}
		d.AwaitNone(t, "the test")
		decision, err := ask(t.Context(), connect(t, d, session.Options{}), check(user("alice")))
		if err != nil || decision.TxnID() != 1 {
			t.Errorf("the first txn has id %d, %v: ids were used up", decision.TxnID(), err)
		}
		if err := ready(p); err != nil {
			t.Fatal(err)
		}
		if decision, err := ask(t.Context(), connect(t, d, session.Options{}), check(user("bob"))); err != nil ||
			decision.TxnID() != 2 {
			t.Errorf("the second txn has id %d, %v: ids were used up", decision.TxnID(), err)
		}
		if n := d.Count(t, "SELECT COUNT(*) FROM information_schema.processlist WHERE user = ?", userOf(t, p)); n > 1 {
			t.Errorf("%d connections", n)
		}
	})
}

// A session that reads rows with locks holds up what is written beside them, and no check of other zones.
func TestLockedRowsMakeNoInstanceUnready(t *testing.T) {
	t.Parallel()
	enginetest.Each(t, func(t *testing.T, engine *enginetest.Engine) {
		d := engine.Database(t, zone(1, 5, time.Hour), zone(70, 5, time.Hour))
		store := connect(t, d, session.Options{})
		decided(t, store, user("alice"))
		person := sqlSession(t, d, "SET SESSION TRANSACTION ISOLATION LEVEL REPEATABLE READ", "START TRANSACTION")
		for _, table := range []string{"zone_bucket_lock", "zone_txn"} {
			enginetest.Exec(t, person, "SELECT zone_id FROM "+table+" WHERE zone_id >= 0 FOR UPDATE")
			p := probe(t, d.ServiceAccount(t).DSN)
			for name, err := range map[string]error{"reports": ready(p), "checks": p.ReadyForChecks(t.Context())} {
				if err != nil {
					t.Errorf("%s, with the rows of %s locked: %v (%v)", name, table, err, errors.Unwrap(err))
				}
			}
		}
	})
}

func userOf(t *testing.T, p *Probe) string {
	t.Helper()
	var name string
	if err := p.conns.Get(&name, "SELECT SUBSTRING_INDEX(SESSION_USER(), '@', 1)"); err != nil {
		t.Fatal(err)
	}
	return name
}

func TestProveTellsThatTheOwnerIsGone(t *testing.T) {
	t.Parallel()
	enginetest.Each(t, func(t *testing.T, engine *enginetest.Engine) {
		d := engine.Empty(t)
		owner := d.Account(t, "ALL ON *")
		enginetest.Migrate(t, owner.DSN)
		p := probe(t, d.ServiceAccount(t).DSN)
		if err := ready(p); err != nil {
			t.Fatal(err, errors.Unwrap(err))
		}
		account, name := accountOf(t, owner)
		enginetest.Exec(t, d.SQL, "REVOKE SELECT ON "+name+".* FROM "+account)
		wantUnready(t, "the owner lacks a right", ready(p),
			"the owner (definer) of procedure check_velocity_by_rule lacks a right")
		enginetest.Exec(t, d.SQL, "DROP USER "+account)
		wantUnready(t, "the owner is gone", ready(p),
			"the owner (definer) of procedure check_velocity_by_rule does not exist")
		enginetest.Exec(t, d.SQL, "CREATE USER "+account+" IDENTIFIED BY 'pass'")
		enginetest.Exec(t, d.SQL, "GRANT ALL ON "+name+".* TO "+account)
		if err := ready(p); err != nil {
			t.Error("with the owner again:", err, errors.Unwrap(err))
		}
	})
}

func TestProveFollowsServerThatStopsWritingOrRunning(t *testing.T) {
	t.Parallel()
	enginetest.One(t, func(t *testing.T, engine *enginetest.Engine) {
		dir := t.TempDir()
		server := engine.Private(t, dir)
		d := enginetest.Empty(t, enginetest.AdminDSN(server, ""))
		// An owner with SUPER could write to a read-only server, and so could the procedures.
		enginetest.Exec(t, d.SQL, "SET GLOBAL log_bin_trust_function_creators = 1")
		enginetest.Migrate(t, d.Account(t, "ALL ON *").DSN)
		d.SetZone(t, zone(1, 5, time.Hour))
		narrow := d.ServiceAccount(t)
		p := probe(t, narrow.DSN)
		enginetest.Exec(t, d.SQL, "SET GLOBAL read_only = 1")
		wantUnready(t, "read-only", ready(p), "the database is read-only")
		enginetest.Exec(t, d.SQL, "SET GLOBAL read_only = 0")
		if err := ready(p); err != nil {
			t.Error("after read-only:", err, errors.Unwrap(err))
		}

		holder := sqlSession(t, d, "FLUSH TABLES WITH READ LOCK")
		wantUnready(t, "FLUSH TABLES WITH READ LOCK", ready(p), "is locked")
		enginetest.Exec(t, holder, "UNLOCK TABLES")
		if err := ready(p); err != nil {
			t.Error("after FLUSH TABLES WITH READ LOCK:", err, errors.Unwrap(err))
		}

		account, _ := accountOf(t, narrow)
		enginetest.Exec(t, d.SQL, "ALTER USER "+account+" IDENTIFIED BY 'another'")
		_ = p.conns.Close()
		p = probe(t, narrow.DSN)
		wantUnready(t, "another password", ready(p), "the database refuses the service's account")
		enginetest.Exec(t, d.SQL, "ALTER USER "+account+" IDENTIFIED BY 'pass'")

		enginetest.Kill(server)
		wantUnready(t, "engine away", ready(p), "the database cannot be reached")
		engine.Private(t, dir)
		enginetest.Eventually(t, "the engine's return", func() bool { return ready(p) == nil })
	})
}
