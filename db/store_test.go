package db

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"

	"velocityd/db/session"
	"velocityd/migrations"
	"velocityd/service"
	"velocityd/tools/enginetest"
	"velocityd/tools/nightly"
)

func TestEveryConnectionHasTheSessionItNeeds(t *testing.T) {
	t.Parallel()
	enginetest.Each(t, func(t *testing.T, engine *enginetest.Engine) {
		d := engine.Empty(t)
		store := connect(t, d, session.Options{LockWait: 3 * time.Second})
		ctx := context.Background()
		for range 3 {
			conn, err := store.lookUps.Conns.Connx(ctx)
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close() // only now, so that the three are distinct
			var got struct {
				Zone  string `db:"zone"`
				Wait  int    `db:"wait"`
				Modes string `db:"modes"`
			}
			if err := conn.GetContext(ctx, &got, `
SELECT @@session.time_zone AS zone, @@session.innodb_lock_wait_timeout AS wait, @@session.sql_mode AS modes`); err != nil {
				t.Fatal(err)
			}
			if got.Zone != "+00:00" || got.Wait != 3 || !strings.Contains(got.Modes, "STRICT_ALL_TABLES") {
				t.Errorf("session is %+v", got)
			}
			if _, err := conn.ExecContext(ctx, "SELECT 1; SELECT 2"); err == nil {
				t.Error("a connection for look-ups takes several statements at once")
			}
		}
	})
}

func TestOpenTellsFaultAndNeverThePassword(t *testing.T) {
	t.Parallel()
	const secret = "hunter2hunter2"
	for name, step := range map[string]struct {
		options session.Options
		want    error
	}{
		"unreadable":  {session.Options{DSN: "root:" + secret + "@tcp(127.0.0.1:1/x"}, service.ErrInvalid},
		"no database": {session.Options{DSN: "root:" + secret + "@tcp(127.0.0.1:1)/"}, service.ErrInvalid},
		"no whole seconds": {
			session.Options{DSN: "root:" + secret + "@tcp(127.0.0.1:1)/x", LockWait: 1500 * time.Millisecond},
			service.ErrInvalid,
		},
		"negative wait": {
			session.Options{DSN: "root:" + secret + "@tcp(127.0.0.1:1)/x", LockWait: -time.Second},
			service.ErrInvalid,
		},
		"engine away":    {session.Options{DSN: "root:" + secret + "@tcp(127.0.0.1:1)/x"}, service.ErrBusy},
		"no such socket": {session.Options{DSN: "root:" + secret + "@unix(/nowhere/my.sock)/x"}, service.ErrBusy},
		"unknown parameter": {
			session.Options{DSN: "root:" + secret + "@tcp(127.0.0.1:1)/x?tls=none-such"},
			service.ErrInvalid,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			store, err := Open(step.options)
			if err == nil {
				_, _, err = store.SchemaVersion(t.Context())
				_ = store.Close()
			}
			if !errors.Is(err, step.want) || strings.Contains(err.Error(), secret) {
				t.Errorf("err = %v, want %v without the password", err, step.want)
			}
			if printed := session.RedactDSN(step.options.DSN); strings.Contains(printed, secret) {
				t.Errorf("redacted as %s", printed)
			}
		})
	}
}

func TestSchemaVersionTellsNoneAndCurrent(t *testing.T) {
	t.Parallel()
	enginetest.Each(t, func(t *testing.T, engine *enginetest.Engine) {
		d := engine.Empty(t)
		store := connect(t, d, session.Options{})
		if version, dirty, err := store.SchemaVersion(context.Background()); version != 0 || dirty || err != nil {
			t.Errorf("empty database: %d, %v, %v", version, dirty, err)
		}
		enginetest.Migrate(t, d.DSN)
		if version, dirty, err := store.SchemaVersion(context.Background()); version != migrations.Latest() || dirty ||
			err != nil {
			t.Errorf("migrated database: %d, %v, %v, want %d", version, dirty, err, migrations.Latest())
		}
		enginetest.Exec(t, d.SQL, "UPDATE schema_migrations SET version = -1, dirty = TRUE")
		if version, dirty, err := store.SchemaVersion(context.Background()); version != 0 || !dirty || err != nil {
			t.Errorf("database that a migration down left half-way: %d, %v, %v", version, dirty, err)
		}
	})
}

func TestStoppedServerIsQuicklyBusyAndRecoversItself(t *testing.T) {
	t.Parallel()
	enginetest.One(t, func(t *testing.T, engine *enginetest.Engine) {
		dir := t.TempDir()
		server := engine.Private(t, dir)
		d := migrated(t, server, zone(1, 5, time.Hour))
		run := &midRun{
			limiter: service.NewLimiter(connect(t, d, session.Options{}), service.LimiterOptions{Timeout: 5 * time.Second}),
		}
		var group sync.WaitGroup
		for range 16 {
			group.Go(func() {
				var err error
				for err == nil { // until the server is away
					err = run.ask(t)
				}
			})
		}
		enginetest.Eventually(t, "the run is under way", func() bool { return run.count(nil) > 50 })
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
		defer cancel()
		if err := server.Stop(ctx); err != nil {
			t.Fatal(err)
		}
		group.Wait()
		asked := time.Now()
		if err := run.ask(t); err == nil || run.count(service.ErrBusy) == 0 || time.Since(asked) > 4*time.Second {
			t.Errorf("server away: %v after %v, %d were busy", err, time.Since(asked), run.count(service.ErrBusy))
		}
		engine.Private(t, dir)
		enginetest.Eventually(t, "checks are answered again", func() bool { return run.ask(t) == nil })
		run.compare(t, d)
	})
}

// midRun asks checks, each with a key of its own, and remembers the answers to
// them.
type midRun struct {
	limiter *service.Limiter
	mu      sync.Mutex
	asked   int
	ends    map[string]error // by key
}

// ask returns how a check ended. It is a failure of the test if that is in another way than a
// server that goes away may bring about.
func (r *midRun) ask(t *testing.T) error {
	t.Helper()
	r.mu.Lock()
	r.asked++
	key := fmt.Sprint("user-", r.asked)
	r.mu.Unlock()
	_, err := askLimiter(context.Background(), r.limiter, check(user(key)))
	if err != nil && !errors.Is(err, service.ErrBusy) && !errors.Is(err, service.ErrUndecided) {
		t.Errorf("%s: %v", key, err)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.ends == nil {
		r.ends = map[string]error{}
	}
	r.ends[key] = err
	return err
}

// count is how many checks ended in kind; nil is decided.
func (r *midRun) count(kind error) (n int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, err := range r.ends {
		if errors.Is(err, kind) {
			n++
		}
	}
	return n
}

// compare compares the answers to callers with the rows: decided is a
// row, busy is none, undecided may be either.
func (r *midRun) compare(t *testing.T, d *enginetest.Database) {
	t.Helper()
	for key, err := range r.ends {
		recorded := len(d.Txns(t, user(key)))
		switch {
		case err == nil && recorded != 1:
			t.Errorf("%s was decided and has %d txns", key, recorded)
		case errors.Is(err, service.ErrBusy) && recorded != 0:
			t.Errorf("%s was busy and has %d txns: %v", key, recorded, err)
		}
	}
}

func TestReadOnlyServerIsBusyUntilWritableAgain(t *testing.T) {
	t.Parallel()
	enginetest.One(t, func(t *testing.T, engine *enginetest.Engine) {
		server := engine.Private(t, t.TempDir())
		d := enginetest.Empty(t, enginetest.AdminDSN(server, ""))
		cfg, err := mysql.ParseDSN(d.DSN)
		if err != nil {
			t.Fatal(err)
		}
		// root may write to a read-only server, and so may procedures that root has made: let app make them.
		enginetest.Exec(t, d.SQL, "SET GLOBAL log_bin_trust_function_creators = ON")
		enginetest.Exec(t, d.SQL, "CREATE USER 'app'@'localhost' IDENTIFIED BY 'pass'")
		enginetest.Exec(t, d.SQL, "GRANT ALL ON "+cfg.DBName+".* TO 'app'@'localhost'")
		cfg.User, cfg.Passwd = "app", "pass"
		enginetest.Migrate(t, cfg.FormatDSN())
		d.SetZone(t, zone(1, 10, time.Hour))
		p := enginetest.Through(t, cfg.FormatDSN())
		store := connect(t, &enginetest.Database{DSN: p.DSN}, session.Options{})
		readOnly := func(state string) { enginetest.Exec(t, d.SQL, "SET GLOBAL read_only = "+state) }
		both := check(user("alice"), user("bob"))
		for name, step := range map[string]struct {
			question []service.Check
			begin    func()
		}{
			"one CALL":             {check(user("alice")), func() { readOnly("ON") }},
			"a batch":              {both, func() { readOnly("ON") }},
			"in the middle of one": {both, func() { p.Before("INSERT INTO zone_txn", func() { readOnly("ON") }) }},
		} {
			before := d.Count(t, "SELECT COUNT(*) FROM zone_txn")
			step.begin()
			if _, err := store.CheckAll(t.Context(), service.Call{Checks: step.question}); !errors.Is(err, service.ErrAway) ||
				!session.IsOneOf(err, session.ReadOnly()) {
				t.Errorf("%s: %v, want ErrAway that says why", name, err)
			}
			readOnly("OFF")
			d.AwaitNone(t, "the test")
			if n := d.Count(t, "SELECT COUNT(*) FROM zone_txn"); n != before {
				t.Errorf("%s: recorded %d txns", name, n-before)
			}
			if _, err := store.CheckAll(t.Context(), service.Call{Checks: step.question}); err != nil {
				t.Errorf("%s, writable again: %v", name, err)
			}
		}
	})
}

func TestStoreWithoutEngineIsBusyWithEverything(t *testing.T) {
	t.Parallel()
	s, err := Open(session.Options{DSN: "root@unix(/nowhere/my.sock)/x"})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	ctx := t.Context()
	deny := service.Override{ID: 1, ZoneID: 1, Key: "alice", Action: service.OverrideDeny}
	for name, question := range map[string]func() error{
		"SchemaVersion": func() error { _, _, err := s.SchemaVersion(ctx); return err },
		"CheckAll, one": func() error { _, err := s.CheckAll(ctx, service.Call{Checks: check(user("alice"))}); return err },
		"CheckAll, two": func() error {
			_, err := s.CheckAll(ctx, service.Call{Checks: check(user("alice"), user("bob"))})
			return err
		},
		"ReportAll": func() error { _, err := s.ReportAll(ctx, []service.Report{{TxnID: 1}}); return err },
		"Txn":       func() error { _, err := s.History.Txn(ctx, 1); return err },
		"Peek":      func() error { _, err := s.Peek(ctx, user("alice")); return err },
		"Release":   func() error { return s.Release(ctx, user("alice"), "me", "test") },
		"Zones":     func() error { _, err := s.Records.Zones(ctx); return err },
		"Zone":      func() error { _, err := s.Records.Zone(ctx, 1); return err },
		"PutZone": func() error {
			_, err := s.Records.PutZone(ctx, zone(1, 5, time.Hour), service.Match{}, "")
			return err
		},
		"DeleteZone":     func() error { return s.Records.DeleteZone(ctx, 1, service.Match{}, "") },
		"Overrides":      func() error { _, err := s.Records.Overrides(ctx, 1, 0, 1); return err },
		"Override":       func() error { _, err := s.Records.Override(ctx, 1, 1); return err },
		"AddOverride":    func() error { _, err := s.Records.AddOverride(ctx, deny, ""); return err },
		"SetOverride":    func() error { _, err := s.Records.SetOverride(ctx, deny, ""); return err },
		"DeleteOverride": func() error { return s.Records.DeleteOverride(ctx, 1, 1, "") },
	} {
		isCheck := strings.HasPrefix(name, "CheckAll")
		if err := question(); !errors.Is(err, service.ErrBusy) || isCheck && !errors.Is(err, service.ErrAway) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestEngineKilledAtAnyStepKeepsAnsweredDecisions(t *testing.T) {
	nightly.Only(t, "five starts of each engine")
	t.Parallel()
	const first, second, lone = "START TRANSACTION", "INSERT INTO zone_txn", "CALL check_velocity_by_rule"
	enginetest.Each(t, func(t *testing.T, engine *enginetest.Engine) {
		dir := t.TempDir()
		server := engine.Private(t, dir)
		d := migrated(t, server, zone(1, 50, time.Hour))
		p := enginetest.Through(t, d.DSN)
		store := connect(t, &enginetest.Database{DSN: p.DSN}, session.Options{})
		for _, step := range []struct {
			name     string
			question []service.Check
			at       func(*enginetest.Proxy, string, func())
			text     string
			kind     error
			txns     int
		}{
			{
				"before the first answer", check(user("a"), user("b")), (*enginetest.Proxy).BeforeAnswer, first, service.ErrBusy,
				0,
			},
			{"between", check(user("c"), user("d")), (*enginetest.Proxy).Before, second, service.ErrUndecided, 0},
			{
				"before the second answer", check(user("e"), user("f")), (*enginetest.Proxy).BeforeAnswer, second,
				service.ErrUndecided, 1,
			},
			{"before the answer of a CALL", check(user("g")), (*enginetest.Proxy).BeforeAnswer, lone, service.ErrUndecided, 1},
		} {
			enginetest.Eventually(t, "checks are decided", func() bool {
				_, err := store.CheckAll(t.Context(), service.Call{Checks: check(user("known"), user("too"))})
				return err == nil
			})
			victim := server
			step.at(p, step.text, func() {
				enginetest.Eventually(t, "it is recorded", func() bool {
					return len(d.Txns(t, step.question[0].Buckets[0])) == step.txns
				})
				enginetest.Kill(victim)
				p.Cut()
			})
			if _, err := store.CheckAll(t.Context(), service.Call{Checks: step.question}); !errors.Is(err, step.kind) {
				t.Errorf("%s: %v, want %v", step.name, err, step.kind)
			}
			server = engine.Private(t, dir)
			enginetest.Eventually(t, "the engine answers", func() bool { return d.SQL.Ping() == nil })
			d.AwaitNone(t, step.name)
			for _, bucket := range step.question[0].Buckets {
				if n := len(d.Txns(t, bucket)); n != step.txns {
					t.Errorf("%s: %d txns, want %d", step.name, n, step.txns)
				}
			}
		}
	})
}

// TestCommittingSessionIsNotKilledAndKeepsPlace has each COMMIT wait for a replica that is away.
func TestCommittingSessionIsNotKilledAndKeepsPlace(t *testing.T) {
	t.Parallel()
	const looks = "SHOW GLOBAL STATUS LIKE 'Com_show_processlist'" // at the sessions of the server
	enginetest.One(t, func(t *testing.T, engine *enginetest.Engine) {
		server := engine.Private(t, t.TempDir())
		d := migrated(t, server, zone(1, 50, time.Hour))
		store := connect(t, d, session.Options{MaxConns: session.LeastMaxConns})
		stall := d.StallCommits(t)
		for _, question := range [][]service.Check{check(user("a")), check(user("b"), user("c"))} {
			buckets := question[0].Buckets
			stall(true)
			ctx, cancel := context.WithCancel(t.Context())
			ended := make(chan error)
			go func() {
				_, err := store.CheckAll(ctx, service.Call{Checks: question})
				ended <- err
			}()
			enginetest.Eventually(t, "it is in its COMMIT", func() bool { return len(d.Committing(t)) == 1 })
			before := counter(t, d.SQL, looks)
			cancel()
			if err := <-ended; !errors.Is(err, service.ErrUndecided) {
				t.Errorf("%v: %v", buckets, err)
			}
			enginetest.Eventually(t, "the killer has looked at it", func() bool {
				return counter(t, d.SQL, looks) >= before+3 || store.checks.Stats().InUse == 0
			})
			sessions, places := d.Committing(t), store.checks.Stats().InUse
			if len(sessions) != 1 || places != 1 || sessions[0].Command == "Killed" {
				t.Fatalf("%v: %d places for %+v", buckets, places, sessions)
			}
			stall(false)
			enginetest.Eventually(t, "its place is free", func() bool { return store.checks.Stats().InUse == 0 })
			d.WantCount(t, 1, "SELECT COUNT(*) FROM zone_txn WHERE bucket_key = ?", buckets[0].Key)
		}
	})
}
