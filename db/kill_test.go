package db

import (
	"context"
	"errors"
	"testing"
	"time"

	"velocityd/db/dbtest"
	"velocityd/db/localdb"
	"velocityd/service"
)

// killed ends a server as a kill does that nobody expects.
func killed(server *localdb.Server) {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	_ = server.Stop(ctx) // says that it was killed
}

func TestAnEngineKilledAtAnyStepLeavesWhatWasTold(t *testing.T) {
	t.Parallel()
	const first, second, lone = "START TRANSACTION", "INSERT INTO zone_txn", "CALL check_velocity_by_rule"
	dbtest.Each(t, func(t *testing.T, engine *dbtest.Engine) {
		dir := t.TempDir()
		server := engine.Private(t, dir)
		d := dbtest.Empty(t, dbtest.AdminDSN(server, ""))
		dbtest.Migrate(t, d.DSN)
		d.SetZone(t, zone(1, 50, time.Hour))
		p := dbtest.Through(t, d.DSN)
		store := connect(t, &dbtest.Database{DSN: p.DSN}, Options{})
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
				_, err := store.CheckAll(t.Context(), check(user("known"), user("too")))
				return err == nil
			})
			victim := server
			step.at(p, step.text, func() {
				dbtest.Eventually(t, "it is recorded", func() bool {
					return len(d.Txns(t, step.question[0].Buckets[0])) == step.txns
				})
				killed(victim)
				p.Cut()
			})
			if _, err := store.CheckAll(t.Context(), step.question); !errors.Is(err, step.kind) {
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
