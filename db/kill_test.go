package db

import (
	"context"
	"errors"
	"testing"
	"time"

	"velocityd/db/dbtest"
	"velocityd/db/session"
	"velocityd/internal/nightly"
	"velocityd/service"
)

func TestAnEngineKilledAtAnyStepLeavesWhatWasTold(t *testing.T) {
	nightly.Only(t, "five starts of each engine")
	t.Parallel()
	const first, second, lone = "START TRANSACTION", "INSERT INTO zone_txn", "CALL check_velocity_by_rule"
	dbtest.Each(t, func(t *testing.T, engine *dbtest.Engine) {
		dir := t.TempDir()
		server := engine.Private(t, dir)
		d := migrated(t, server, zone(1, 50, time.Hour))
		p := dbtest.Through(t, d.DSN)
		store := connect(t, &dbtest.Database{DSN: p.DSN}, session.Options{})
		for _, step := range []struct {
			name     string
			question []service.Check
			at       func(*dbtest.Proxy, string, func())
			text     string
			kind     error
			txns     int
		}{
			{"before the first answer", check(user("a"), user("b")), (*dbtest.Proxy).BeforeAnswer, first, service.ErrBusy, 0},
			{"between", check(user("c"), user("d")), (*dbtest.Proxy).Before, second, service.ErrUndecided, 0},
			{"before the second answer", check(user("e"), user("f")), (*dbtest.Proxy).BeforeAnswer, second, service.ErrUndecided, 1},
			{"before the answer of a CALL", check(user("g")), (*dbtest.Proxy).BeforeAnswer, lone, service.ErrUndecided, 1},
		} {
			dbtest.Eventually(t, "checks are decided", func() bool {
				_, err := store.CheckAll(t.Context(), service.Call{Checks: check(user("known"), user("too"))})
				return err == nil
			})
			victim := server
			step.at(p, step.text, func() {
				dbtest.Eventually(t, "it is recorded", func() bool {
					return len(d.Txns(t, step.question[0].Buckets[0])) == step.txns
				})
				dbtest.Kill(victim)
				p.Cut()
			})
			if _, err := store.CheckAll(t.Context(), service.Call{Checks: step.question}); !errors.Is(err, step.kind) {
				t.Errorf("%s: %v, want %v", step.name, err, step.kind)
			}
			server = engine.Private(t, dir)
			dbtest.Eventually(t, "the engine answers", func() bool { return d.SQL.Ping() == nil })
			d.AwaitNone(t, step.name)
			for _, bucket := range step.question[0].Buckets {
				if n := len(d.Txns(t, bucket)); n != step.txns {
					t.Errorf("%s: %d txns, want %d", step.name, n, step.txns)
				}
			}
		}
	})
}

// TestASessionInItsCommitIsNotKilledAndKeepsItsPlace has each COMMIT wait for a replica that is away.
func TestASessionInItsCommitIsNotKilledAndKeepsItsPlace(t *testing.T) {
	t.Parallel()
	const looks = "SHOW GLOBAL STATUS LIKE 'Com_show_processlist'" // at the sessions of the server
	dbtest.One(t, func(t *testing.T, engine *dbtest.Engine) {
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
			dbtest.Eventually(t, "it is in its COMMIT", func() bool { return len(d.Committing(t)) == 1 })
			before := counter(t, d.SQL, looks)
			cancel()
			if err := <-ended; !errors.Is(err, service.ErrUndecided) {
				t.Errorf("%v: %v", buckets, err)
			}
			dbtest.Eventually(t, "the killer has looked at it", func() bool {
				return counter(t, d.SQL, looks) >= before+3 || store.lanes.Stats().InUse == 0
			})
			sessions, places := d.Committing(t), store.lanes.Stats().InUse
			if len(sessions) != 1 || places != 1 || sessions[0].Command == "Killed" {
				t.Fatalf("%v: %d places for %+v", buckets, places, sessions)
			}
			stall(false)
			dbtest.Eventually(t, "its place is free", func() bool { return store.lanes.Stats().InUse == 0 })
			d.WantCount(t, 1, "SELECT COUNT(*) FROM zone_txn WHERE bucket_key = ?", buckets[0].Key)
		}
	})
}
