package db

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"velocityd/db/session"
	"velocityd/service"
	"velocityd/service/queue"
	"velocityd/tools/enginetest"
)

func TestLongHeldBucketIsBusyOthersAreServed(t *testing.T) {
	t.Parallel()
	enginetest.Each(t, func(t *testing.T, engine *enginetest.Engine) {
		const others = 40
		d := engine.Database(t, zone(1, 100, time.Hour))
		c := coalesce(t, connect(t, d, session.Options{}), queue.CoalescerOptions{Lanes: 1, Timeout: time.Minute})
		release := d.Hold(t, user("held"))
		var group sync.WaitGroup
		for i := range others {
			group.Go(func() {
				if _, err := ask(t.Context(), c, check(user(fmt.Sprint("other-", i)))); err != nil {
					t.Errorf("another bucket: %v", err)
				}
			})
			group.Go(func() {
				question := check(user("held"))
				if i%2 == 0 {
					question = check(user("held"), user(fmt.Sprint("with it-", i)))
				}
				if d, err := ask(t.Context(), c, question); !errors.Is(err, service.ErrBusy) {
					t.Errorf("the held bucket: %+v, %v", d, err)
				}
			})
		}
		group.Wait() // while it is held
		release()
		d.WantCount(t, others, "SELECT COUNT(*) FROM zone_txn")
		if _, err := ask(t.Context(), c, check(user("held"))); err != nil {
			t.Errorf("released: %v", err)
		}
		wantSettled(t, d, zone(1, 100, time.Hour))
	})
}

// TestTimedOutCallersLeaveNoConnectionAtWork keeps all connections for look-ups at work, so
// that none of them can end the sessions that the callers leave behind.
func TestTimedOutCallersLeaveNoConnectionAtWork(t *testing.T) {
	t.Parallel()
	t.Run("late", func(t *testing.T) {
		t.Parallel()
		runOutOfTime(t, 2*time.Second, time.Hour, false)
	})
	t.Run("cancelled", func(t *testing.T) {
		t.Parallel()
		runOutOfTime(t, time.Hour, 4*time.Second, true)
	})
}

func runOutOfTime(t *testing.T, timeout, lockWait time.Duration, cancels bool) {
	t.Helper()
	enginetest.Each(t, func(t *testing.T, engine *enginetest.Engine) {
		const callers, conns, own = 100, 8, 2
		d := engine.Database(t)
		d.SQL.SetMaxOpenConns(own) // the holder's, and the counter's
		d.SetZone(t, zone(1, 200, time.Hour))
		store := connect(t, d, session.Options{LockWait: lockWait, MaxConns: conns})
		for range store.lookUps.Conns.Stats().MaxOpenConnections {
			busy, err := store.lookUps.Conns.Conn(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			defer busy.Close()
		}
		d.Hold(t, user("held"))
		ctx, cancel := context.WithTimeout(t.Context(), timeout)
		defer cancel()
		var group sync.WaitGroup
		for i := range callers {
			group.Go(func() {
				question := check(user("held"))
				if i%2 == 0 {
					question = check(user("held"), user(fmt.Sprint(i)))
				}
				_, err := store.CheckAll(ctx, service.Call{Checks: question})
				if !errors.Is(err, service.ErrUndecided) && (!errors.Is(err, service.ErrBusy) || errors.Is(err, service.ErrAway)) {
					t.Errorf("after the deadline: %v", err)
				}
			})
		}
		if cancels {
			d.AwaitWaiting(t, conns-conns/4) // all connections for checks
			cancel()
		}
		group.Wait()
		enginetest.Eventually(t, "nothing is at work but the holder", func() bool {
			if n := len(d.Sessions(t)); n > conns+background+own {
				t.Fatalf("%d connections, want %d at most", n-own, conns+background)
			}
			open, _ := d.Transactions(t)
			return open == 1
		})
		d.WantCount(t, 0, "SELECT COUNT(*) FROM zone_txn")
	})
}

// beginner returns a new database of a new server, and the same as an account reaches it whose new
// sessions begin with a statement that begin sets. Those of administrators do not.
func beginner(t *testing.T, engine *enginetest.Engine, zones ...service.Zone) (
	d, account *enginetest.Database, begin func(statement string),
) {
	t.Helper()
	d = enginetest.Empty(t, enginetest.AdminDSN(engine.Private(t, t.TempDir()), ""))
	enginetest.Migrate(t, d.DSN)
	for _, zone := range zones {
		d.SetZone(t, zone)
	}
	account = d.ServiceAccount(t)
	return d, account, func(statement string) { enginetest.Exec(t, d.SQL, "SET GLOBAL init_connect = ?", statement) }
}

// TestNoWaitLoneCheckTakesNoLock asks with a lock wait that would outlast
// the test: only an answer that waits for nothing comes in time.
func TestNoWaitLoneCheckTakesNoLock(t *testing.T) {
	t.Parallel()
	enginetest.Each(t, func(t *testing.T, engine *enginetest.Engine) {
		d, store := stand(t, engine, session.Options{LockWait: time.Hour}, zone(1, 5, time.Hour))
		d.Hold(t, user("held"))
		decisions, err := store.CheckAll(t.Context(), service.Call{Checks: check(user("held")), NoWait: true})
		if err != nil || !errors.Is(decisions[0].Err, service.ErrHeld) {
			t.Errorf("got %+v, %v, want it held", decisions, err)
		}
	})
}

// TestCallerWaitingForBucketBlocksNoMigration would otherwise end after ten seconds: the session that holds
// the bucket and reads a table next would wait behind the migration, which waits for the waiting caller.
func TestCallerWaitingForBucketBlocksNoMigration(t *testing.T) {
	t.Parallel()
	enginetest.Each(t, func(t *testing.T, engine *enginetest.Engine) {
		d, store := stand(t, engine, session.Options{}, zone(1, 100, time.Hour))
		decide(t, store, check(user("held")))
		release := d.Hold(t, user("held"))
		calls := []string{
			"CALL check_velocity(1, 'held')",
			`CALL check_velocity_buckets('[{"zone_id":1,"bucket_key":"free"},{"zone_id":1,"bucket_key":"held"}]', NULL)`,
			"CALL report_outcome(1, 'failure')",
			"CALL release_bucket(1, 'held', NULL, 'a test')",
		}
		var group sync.WaitGroup
		for _, statement := range calls {
			conn := sqlSession(t, d)
			group.Go(func() {
				if _, _, err := answerTo(conn, statement); err != nil {
					t.Errorf("%s: %v", statement, err)
				}
			})
		}
		d.AwaitWaiting(t, len(calls))
		migration := sqlSession(t, d, "SET SESSION lock_wait_timeout = 1",
			"LOCK TABLES zone_master WRITE, zone_txn WRITE, zone_override WRITE")
		enginetest.Exec(t, migration, "UNLOCK TABLES")
		release()
		group.Wait()
	})
}

func TestHeldCheckOfDeletedZoneIsUnknown(t *testing.T) {
	t.Parallel()
	enginetest.Each(t, func(t *testing.T, engine *enginetest.Engine) {
		d := engine.Database(t, zone(1, 5, time.Hour), zone(2, 5, time.Hour))
		held := service.Bucket{ZoneID: 2, Key: "held"}
		d.Hold(t, held)
		p := enginetest.Through(t, d.DSN)
		store := connect(t, &enginetest.Database{DSN: p.DSN}, session.Options{})
		store.cache.sawRow(held)
		// The first batch in a zone reads the zones again before it lists txns.
		p.Before("FROM zone_txn FORCE INDEX", func() { d.DeleteZone(t, 2) })
		checks := append(check(held), check(user("a"))...)
		decisions, err := store.CheckAll(t.Context(), service.Call{Checks: checks, NoWait: true})
		if err != nil || !errors.Is(decisions[0].Err, service.ErrNotFound) || decisions[1].Err != nil ||
			decisions[1].TxnID() == 0 {
			t.Errorf("got %+v, %v", decisions, err)
		}
	})
}
