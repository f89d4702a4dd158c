package main

import (
	"context"
	"database/sql"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"velocityd/db/localdb"
	"velocityd/service"
	"velocityd/service/access"
	"velocityd/tools/enginetest"
)

// onFailureZones are one zone of each on_failure.
func onFailureZones() []service.Zone {
	return []service.Zone{
		{ID: 1, Rate: 50, Window: time.Hour},
		{
			ID: 2, Rate: 50, Window: time.Hour, OnFailure: service.OnFailureAllow,
			Keys: service.KeyRule{Kind: service.KeyUsername},
		},
		{ID: 3, Rate: 50, Window: time.Hour, OnFailure: service.OnFailureBlock},
	}
}

// killable is an engine that a test ends and starts again, with onFailureZones.
type killable struct {
	*enginetest.Database
	engine *enginetest.Engine
	server *localdb.Server
	dir    string
	args   []string
}

func newKillable(t *testing.T, engine *enginetest.Engine, args ...string) *killable {
	t.Helper()
	m := &killable{engine: engine, dir: t.TempDir(), args: args}
	m.start(t)
	m.Database = enginetest.Empty(t, enginetest.AdminDSN(m.server, ""))
	enginetest.Migrate(t, m.DSN)
	for _, zone := range onFailureZones() {
		m.SetZone(t, zone)
	}
	return m
}

func (m *killable) start(t *testing.T) {
	t.Helper()
	m.server = m.engine.Private(t, m.dir, m.args...)
}

// kill ends the engine without giving it time for anything.
func (m *killable) kill() {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	_ = m.server.Stop(ctx)
}

// freeze stops the engine's process, and returns the function that lets it go on.
func (m *killable) freeze(t *testing.T) (proceed func()) {
	t.Helper()
	process, err := os.FindProcess(m.server.PID())
	if err != nil {
		t.Fatal(err)
	}
	proceed = sync.OnceFunc(func() { _ = process.Signal(syscall.SIGCONT) })
	t.Cleanup(proceed)
	if err := process.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	return proceed
}

func TestZonesAnswerChecksThroughEngineKillAndRestart(t *testing.T) {
	t.Parallel()
	enginetest.One(t, func(t *testing.T, engine *enginetest.Engine) {
		for _, coalesce := range []string{"on", "off"} {
			t.Run("coalesce="+coalesce, func(t *testing.T) {
				t.Parallel()
				m := newKillable(t, engine)
				i := start(t, environment{"VELOCITY_DSN": m.DSN},
					append([]string{"serve", "--coalesce", coalesce, "--degraded-after", "20s"}, slow...)...)
				answers := awayLog{newTold[awayAnswer]()}
				answers.killInMidRun(t, m, i.url)
				answers.compare(t, m.Database)
				if got := askAway(t, i.url, 3, "after"); got != toldAllowed {
					t.Errorf("afterwards: %s", got)
				}
				wantAwayLog(t, i.stderr.String(), answers)
			})
		}
	})
}

func TestSilentEngineLeavesSentUndecidedLaterChecksDegraded(t *testing.T) {
	t.Parallel()
	enginetest.One(t, func(t *testing.T, engine *enginetest.Engine) {
		m := newKillable(t, engine)
		i := start(t, environment{"VELOCITY_DSN": m.DSN}, "serve", "--lanes", "1", "--degraded-after", "1s",
			"--check-timeout", "3s", "--lock-wait", "1s")
		enginetest.Eventually(t, "checks are decided", func() bool { return askAway(t, i.url, 2, "before") == toldAllowed })
		proceed := m.freeze(t)
		if got := askAway(t, i.url, 2, "sent"); got != toldUndecided {
			t.Errorf("a check that was sent: %s, want 504", got)
		}
		for zone, want := range map[int]awayAnswer{2: degradedAllow, 3: degradedBlock} {
			for range 20 {
				if got := askAway(t, i.url, zone, "later"); got != want {
					t.Errorf("zone %d later: %s, want %s", zone, got, want)
				}
			}
		}
		if got := askAway(t, i.url, 1, "later"); got != toldAway && got != toldUndecided {
			t.Errorf("zone 1 later: %s", got)
		}
		proceed()
		enginetest.Eventually(t, "the engine decides again",
			func() bool { return askAway(t, i.url, 2, "after") == toldAllowed })
		if n := m.Count(t, "SELECT COUNT(*) FROM zone_txn WHERE zone_id <> 1 AND bucket_key = 'later'"); n != 0 {
			t.Errorf("%d degraded answers are recorded", n)
		}
	})
}

// TestDatabaseIsAwayWhenOnlyItsCommitsHang has each COMMIT wait for a replica
// that is away. The service's tests record nothing, so they succeed.
func TestDatabaseIsAwayWhenOnlyItsCommitsHang(t *testing.T) {
	t.Parallel()
	enginetest.One(t, func(t *testing.T, engine *enginetest.Engine) {
		m := newKillable(t, engine)
		stall := m.StallCommits(t)
		var asked atomic.Int64
		i := start(t, environment{"VELOCITY_DSN": m.DSN}, "serve", "--lanes", "1", "--lock-wait", "1s", "--degraded-after",
			"1s",
			"--check-timeout", "100s", "--shutdown-timeout", "110s")
		enginetest.Eventually(t, "checks are decided", func() bool { return askAway(t, i.url, 2, "before") == toldAllowed })
		stall(true)
		answers := awayLog{newTold[awayAnswer]()}
		asks := func(zone int) func() bool {
			return func() bool {
				key := fmt.Sprintf("check-%d-in-%d", asked.Add(1), zone)
				got := askAway(t, i.url, zone, key)
				answers.note(key, got)
				return got == degradedAllow || got == degradedBlock
			}
		}
		var sent sync.WaitGroup
		sent.Go(func() { asks(2)() })
		enginetest.Eventually(t, "it is in its COMMIT", func() bool { return len(m.Committing(t)) == 1 })
		openings := func() int {
			return len(entries(t, i.stderr.String(), "the database is away: checks are answered by on_failure of their zones"))
		}
		before := openings()
		enginetest.Eventually(t, "it is answered without the database", asks(2))
		for range 20 {
			if !asks(2)() || !asks(3)() {
				t.Fatalf("later: %v", answers.answers)
			}
		}
		if n := openings() - before; n != 1 {
			t.Errorf("%d times away", n)
		}
		stall(false)
		sent.Wait()
		enginetest.Eventually(t, "the engine decides again",
			func() bool { return askAway(t, i.url, 2, "after") == toldAllowed })
		answers.compare(t, m.Database)
	})
}

// TestDatabaseGivingUpLockWaitsIsNotAway has an analyst's open transaction keep all callers from
// recording: the engine says so to each call, once a second or two. It also stops for a moment.
func TestDatabaseGivingUpLockWaitsIsNotAway(t *testing.T) {
	t.Parallel()
	enginetest.One(t, func(t *testing.T, engine *enginetest.Engine) {
		m := newKillable(t, engine)
		// MySQL ends a lock wait of 1 s after up to 2 s, and later on a busy machine: only a silence of 4 s is one.
		i := start(t, environment{"VELOCITY_DSN": m.DSN}, "serve", "--lock-wait", "1s", "--degraded-after", "2s",
			"--check-timeout", "10s", "--shutdown-timeout", "20s")
		mustAsk(t, i.url+"/v1/check", `{"zone_id":2,"bucket_key":"before"}`, http.StatusOK)
		reader, err := m.SQL.BeginTx(t.Context(), &sql.TxOptions{Isolation: sql.LevelSerializable})
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = reader.Rollback() }()
		enginetest.Exec(t, reader, "SELECT * FROM zone_txn ORDER BY id DESC LIMIT 10")
		answers := awayLog{newTold[awayAnswer]()}
		stop := answers.askOn(t, i.url, 4, 2)
		enginetest.Eventually(t, "recording waits", func() bool { return answers.count(toldAway) > 4 })
		proceed := m.freeze(t)
		enginetest.Eventually(t, "it is away", func() bool { return answers.count(degradedAllow) > 0 })
		proceed()
		refused := answers.count(toldAway)
		enginetest.Eventually(t, "the engine refuses again", func() bool { return answers.count(toldAway) > refused+8 })
		if n := len(
			entries(t, i.stderr.String(), "the database is away: checks are answered by on_failure of their zones")); n != 1 {
			t.Errorf("%d times away, want once", n)
		}
		_ = reader.Rollback()
		enginetest.Eventually(t, "the engine decides again",
			func() bool { return askAway(t, i.url, 2, "after") == toldAllowed })
		stop()
	})
}

// TestARestartedServiceAnswersFromItsStateFolder asks by a token, so that callers must be
// remembered as well.
func TestARestartedServiceAnswersFromItsStateFolder(t *testing.T) {
	t.Parallel()
	enginetest.One(t, func(t *testing.T, engine *enginetest.Engine) {
		m := newKillable(t, engine)
		env := environment{
			"VELOCITY_DSN": m.DSN, "VELOCITY_STATE_DIR": filepath.Join(t.TempDir(), "state", "velocityd"),
			"VELOCITY_REQUIRE_AUTH": "true",
		}
		token := strings.TrimSpace(command(env, nil, "token", "create", "shop", "--scope", "check,zones").stdout)
		file := filepath.Join(env["VELOCITY_STATE_DIR"], "zones.json")
		first := start(t, env, append([]string{"serve"}, slow...)...)
		enginetest.Eventually(t, "the zones are remembered", func() bool {
			text, err := os.ReadFile(file)
			return err == nil && strings.Contains(string(text), `"on_failure":"block"`)
		})
		mustAsk(t, withToken(t, first.url, token)+"/v1/zones", "", http.StatusOK)
		for _, file := range []string{file, filepath.Join(env["VELOCITY_STATE_DIR"], "credentials.json")} {
			enginetest.Eventually(t, file+" is for its owner alone", func() bool {
				info, err := os.Stat(file)
				return err == nil && info.Mode().Perm() == 0o600
			})
		}
		if code := first.stop(t); code != exitSuccess {
			t.Errorf("exit code %d", code)
		}
		m.kill()
		forgetful := launch(t, environment{"VELOCITY_DSN": m.DSN}, append([]string{"serve"}, slow...)...)
		second := launch(t, env, append([]string{"serve"}, slow...)...)
		forgetful.awaitAddress(t)
		second.awaitAddress(t)
		url := withToken(t, second.url, token)
		stranger := withToken(t, second.url, access.NewToken().Reveal())
		// It cannot be known.
		mustAsk(t, stranger+"/v1/check", `{"zone_id":2,"bucket_key":"alice"}`, http.StatusServiceUnavailable)
		for zone, want := range map[int]awayAnswer{1: toldAway, 2: degradedAllow, 3: degradedBlock, 4: toldAway} {
			if got := askAway(t, url, zone, "alice"); got != want {
				t.Errorf("zone %d: %s, want %s", zone, got, want)
			}
			if got := askAway(t, forgetful.url, zone, "alice"); got != toldAway {
				t.Errorf("zone %d without a state folder: %s", zone, got)
			}
		}
		if r := mustAsk(t, url+"/v1/check", `{"zone_id":2,"bucket_key":" Alice "}`, http.StatusOK); !strings.Contains(r.body,
			`"bucket_key":"alice"`) {
			t.Errorf("the key is not normalised by the remembered rule: %s", r.body)
		}
		for zone, want := range map[string]result{
			"2": {exitSuccess, "allowed, without the database: recorded nowhere\n  zone 2, bob: at most 50 in 3600 s\n", ""},
			"3": {
				exitBlocked, "blocked for 1 s, without the database: recorded nowhere\n  zone 3, bob: at most 50 in 3600 s\n",
				"",
			},
		} {
			if got := command(environment{"VELOCITY_URL": url}, nil, "check", zone, "bob"); got != want {
				t.Errorf("check %s bob: %+v, want %+v", zone, got, want)
			}
		}
		m.start(t)
		for _, url := range []string{url, forgetful.url} {
			enginetest.Eventually(t, "the engine decides", func() bool { return askAway(t, url, 3, "alice") == toldAllowed })
		}
	})
}
