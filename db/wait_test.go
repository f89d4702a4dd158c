package db

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"velocityd/db/session"
	"velocityd/service"
	"velocityd/service/queue"
	"velocityd/tools/enginetest"
)

func TestZoneChangedWhileCallersWaitHoldsForThem(t *testing.T) {
	t.Parallel()
	const callers = 10
	for name, step := range map[string]struct {
		change  func(*testing.T, *enginetest.Database)
		allowed int
		err     error
	}{
		"grown":       {func(t *testing.T, d *enginetest.Database) { d.SetZone(t, zone(1, 8, time.Hour)) }, 8, nil},
		"shrunk":      {func(t *testing.T, d *enginetest.Database) { d.SetZone(t, zone(1, 2, time.Hour)) }, 2, nil},
		"set to zero": {func(t *testing.T, d *enginetest.Database) { d.SetZone(t, zone(1, 0, time.Hour)) }, 0, nil},
		"deleted":     {func(t *testing.T, d *enginetest.Database) { d.DeleteZone(t, 1) }, 0, service.ErrNotFound},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			enginetest.Each(t, func(t *testing.T, engine *enginetest.Engine) {
				d := engine.Database(t, zone(1, 5, time.Hour))
				store := connect(t, d, session.Options{LockWait: time.Minute}) // until all of them are seen
				release := d.Hold(t, user("alice"))
				type result struct {
					d   service.Decision
					err error
				}
				results := make(chan result, callers)
				for i := range callers {
					checks := check(user("alice"))
					if i%2 == 0 { // half of them by the batch form
						checks = check(user("alice"), user("other"))
						checks[0].Buckets[1].Key = string(rune('a' + i))
					}
					go func() {
						decisions, err := store.CheckAll(context.Background(), service.Call{Checks: checks})
						if err != nil {
							results <- result{err: err}
							return
						}
						results <- result{d: decisions[0], err: decisions[0].Err}
					}()
				}
				d.AwaitWaiting(t, callers)
				step.change(t, d)
				release()
				allowed := 0
				for range callers {
					r := <-results
					if !errors.Is(r.err, step.err) {
						t.Errorf("err = %v, want %v", r.err, step.err)
					}
					if r.err == nil && !r.d.Blocked {
						allowed++
					}
				}
				if allowed != step.allowed {
					t.Errorf("allowed %d, want %d", allowed, step.allowed)
				}
			})
		})
	}
}

func TestLockWaitTimeoutIsBusyLeavingNoLock(t *testing.T) {
	t.Parallel()
	enginetest.Each(t, func(t *testing.T, engine *enginetest.Engine) {
		d, store := stand(t, engine, session.Options{LockWait: time.Second, MaxConns: 1}, zone(1, 5, time.Hour))
		for _, checks := range [][]service.Check{
			check(user("alice")),
			// The batch has locked aaron and seeded a new key before it waits.
			check(user("aaron"), user("aaron's first"), user("alice")),
		} {
			release := d.Hold(t, user("alice"))
			if _, err := store.CheckAll(context.Background(), service.Call{Checks: checks}); !errors.Is(err, service.ErrBusy) {
				t.Errorf("err = %v, want ErrBusy", err)
			}
			wantHolderAlone(t, d)
			release()
			if decisions, err := store.CheckAll(context.Background(), service.Call{Checks: checks}); err != nil ||
				decisions[0].Blocked {
				t.Errorf("after release: %+v, %v", decisions, err)
			}
		}
		d.WantCount(t, 4, "SELECT COUNT(*) FROM zone_txn")
	})
}

func TestHeldBucketHarmsNoOtherCheckOfBatch(t *testing.T) {
	t.Parallel()
	enginetest.Each(t, func(t *testing.T, engine *enginetest.Engine) {
		d, store := stand(t, engine, session.Options{LockWait: time.Second}, zone(1, 100, time.Hour))
		for name, others := range map[string]int{"few": 3, "many": 30} {
			release := d.Hold(t, user("held"))
			checks := check(user(name), user("held"))
			for i := range others {
				checks = append(checks, check(user(fmt.Sprint(name, i)))...)
			}
			checks = append(checks, check(user("held"))[0], check(user(name))[0])
			decisions, err := store.CheckAll(context.Background(), service.Call{Checks: checks})
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			for i, decision := range decisions {
				if held := i == 0 || i == others+1; errors.Is(decision.Err, service.ErrBusy) != held || !held &&
					(decision.Err != nil || decision.TxnID() == 0) {
					t.Errorf("%s: check %d of %v: %+v", name, i, checks[i].Buckets, decision)
				}
			}
			release()
			if n := len(d.Txns(t, user(name))); n != 1 {
				t.Errorf("%s: %d txns of the bucket that one refused check and one other name, want 1", name, n)
			}
		}
		if n := len(d.Txns(t, user("held"))); n != 0 {
			t.Errorf("%d txns in the held bucket", n)
		}
		d.Hold(t, user("held"))
		decisions, err := store.CheckAll(context.Background(),
			service.Call{Checks: append(check(user("held")), check(user("held"))...)})
		if err != nil || !errors.Is(decisions[0].Err, service.ErrBusy) || !errors.Is(decisions[1].Err, service.ErrBusy) {
			t.Errorf("held ones alone: %+v, %v", decisions, err)
		}
		wantHolderAlone(t, d)
		d.Audit(t, zone(1, 100, time.Hour))
	})
}

func TestLockWaitsEndBeforeDeadlineWithKnownOutcome(t *testing.T) {
	t.Parallel()
	enginetest.One(t, func(t *testing.T, engine *enginetest.Engine) {
		d := engine.Database(t, zone(1, 5, time.Hour))
		limiter := service.NewLimiter(connect(t, d, session.Options{LockWait: 5 * time.Second}),
			service.LimiterOptions{Timeout: 10 * time.Second})
		d.Hold(t, user("alice"))
		if _, err := askLimiter(context.Background(), limiter, check(user("alice"))); !errors.Is(err, service.ErrBusy) {
			t.Errorf("err = %v, want ErrBusy: a second wait would not end in time", err)
		}
	})
}

func TestDeadlineLeavesCheckUndecidedAndDropsConnection(t *testing.T) {
	t.Parallel()
	enginetest.One(t, func(t *testing.T, engine *enginetest.Engine) {
		d, store := stand(t, engine, session.Options{LockWait: 20 * time.Second, MaxConns: 1}, zone(1, 5, time.Hour))
		hurried, patient := service.NewLimiter(store, service.LimiterOptions{Timeout: 3 * time.Second}),
			service.NewLimiter(store, service.LimiterOptions{Timeout: time.Minute})
		before := connectionID(t, store)
		release := d.Hold(t, user("alice"))
		if _, err := askLimiter(context.Background(), hurried, check(user("alice"))); !errors.Is(err, service.ErrUndecided) {
			t.Errorf("err = %v, want ErrUndecided", err)
		}
		if after := connectionID(t, store); after == before {
			t.Error("the connection of the lost check was used again")
		}
		release()
		enginetest.Eventually(t, "the engine ends the lost check", func() bool {
			open, _ := d.Transactions(t)
			return open == 0
		})
		if n := len(d.Txns(t, user("alice"))); n > 1 {
			t.Errorf("the lost check was recorded %d times", n)
		}
		if d, err := askLimiter(context.Background(), patient, check(user("alice"))); err != nil || d.Blocked {
			t.Errorf("next check: %+v, %v", d, err)
		}
	})
}

func connectionID(t *testing.T, store *Store) (id int64) {
	t.Helper()
	if err := store.checks.QueryRow("SELECT CONNECTION_ID()").Scan(&id); err != nil {
		t.Fatal(err)
	}
	return id
}

func TestClientLeavingMidCheckIsStillDecidedOnce(t *testing.T) {
	t.Parallel()
	enginetest.One(t, func(t *testing.T, engine *enginetest.Engine) {
		d, store := stand(t, engine, session.Options{LockWait: time.Minute, MaxConns: 1}, zone(1, 5, time.Hour))
		limiter := service.NewLimiter(store, service.LimiterOptions{Timeout: 2 * time.Minute})
		before := connectionID(t, store)
		release := d.Hold(t, user("alice"))
		ctx, leave := context.WithCancel(context.Background())
		answered := make(chan error, 1)
		go func() {
			_, err := askLimiter(ctx, limiter, check(user("alice")))
			answered <- err
		}()
		d.AwaitWaiting(t, 1)
		leave()
		release()
		if err := <-answered; err != nil {
			t.Errorf("check of a client that left: %v", err)
		}
		if txns := d.Txns(t, user("alice")); len(txns) != 1 || !txns[0].Counted {
			t.Errorf("recorded %+v, want one counted txn", txns)
		}
		if after := connectionID(t, store); after != before {
			t.Error("a good connection was thrown away")
		}
	})
}

func TestWaitForAConnectionIsBusyNotUndecided(t *testing.T) {
	t.Parallel()
	enginetest.One(t, func(t *testing.T, engine *enginetest.Engine) {
		_, store := stand(t, engine, session.Options{MaxConns: 1}, zone(1, 5, time.Hour))
		conn, err := store.checks.Conn(context.Background())
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		limiter := service.NewLimiter(store, service.LimiterOptions{Timeout: 100 * time.Millisecond})
		if _, err := askLimiter(context.Background(), limiter, check(user("alice"))); !errors.Is(err, service.ErrBusy) ||
			errors.Is(err, service.ErrAway) {
			t.Errorf("err = %v, want ErrBusy and no more: nothing was sent, and the engine is there", err)
		}
	})
}

// hurry puts a circuit in front of a store, so that its callers need not wait for the engine
// longer than patience. Zone 1 is answered without the database.
func hurry(store service.CheckStore, patience time.Duration) *queue.Coalescer {
	c := queue.NewCoalescer(
		store, queue.CoalescerOptions{IsStraight: true, Circuit: queue.CircuitOptions{After: patience}})
	allow := zone(1, 5, time.Hour)
	allow.OnFailure = service.OnFailureAllow
	c.Circuit.Remember([]service.Zone{allow})
	return c
}

func TestDegradableCheckLeavesSlowConnectionToNext(t *testing.T) {
	t.Parallel()
	enginetest.One(t, func(t *testing.T, engine *enginetest.Engine) {
		d := engine.Database(t, zone(1, 5, time.Hour), zone(2, 5, time.Hour))
		dsn, g := enginetest.BehindBarrier(t, d)
		store := connect(t, &enginetest.Database{DSN: dsn}, session.Options{MaxConns: 2}) // one of them decides checks
		// No server answers, so that this ends by patience alone, on any machine.
		decision, err := ask(t.Context(), hurry(store, time.Millisecond), check(user("alice")))
		if err != nil || !decision.Degraded {
			t.Errorf("got %+v, %v, want an answer without the database", decision, err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		defer cancel()
		if _, err := ask(ctx, store, check(user("alice"))); !errors.Is(err, service.ErrBusy) || ctx.Err() == nil {
			t.Errorf("a caller that must wait did not: %v", err)
		}
		close(g.Opened)
		decision, err = ask(t.Context(), store, check(user("alice")))
		if err != nil || decision.TxnID() == 0 {
			t.Errorf("once the engine answers: %+v, %v", decision, err)
		}
		d.WantCount(t, 1, "SELECT COUNT(*) FROM zone_txn")
	})
}
