package db

import (
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"velocityd/db/session"
	"velocityd/internal/engine"
	"velocityd/service"
	"velocityd/tools/enginetest"
)

// making begins to make the row of a bucket, as a check in progress does, until end.
func making(t *testing.T, d *enginetest.Database, bucket service.Bucket) (end func(commit bool)) {
	t.Helper()
	tx, err := d.SQL.Begin()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = tx.Rollback() })
	enginetest.Exec(t, tx, "INSERT INTO zone_bucket_lock (zone_id, bucket_key) VALUES (?, ?)", bucket.ZoneID, bucket.Key)
	return func(commit bool) {
		t.Helper()
		if commit {
			err = tx.Commit()
		} else {
			err = tx.Rollback()
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

// TestARowInTheMakingHarmsItselfOnly asks with a lock wait that would outlast the
// test: only an answer that waits for nothing comes in time.
func TestARowInTheMakingHarmsItselfOnly(t *testing.T) {
	t.Parallel()
	enginetest.Each(t, func(t *testing.T, engine *enginetest.Engine) {
		const others = 20
		d := engine.Database(t, zone(1, 100, time.Hour))
		ask := func(store *Store, checks []service.Check, held ...int) {
			t.Helper()
			decisions, err := store.CheckAll(t.Context(), service.Call{Checks: checks, NoWait: true})
			if err != nil {
				t.Fatal(err)
			}
			for i, decision := range decisions {
				wanted := false
				for _, h := range held {
					wanted = wanted || h == i
				}
				if errors.Is(decision.Err, service.ErrHeld) != wanted || !wanted && decision.Err != nil {
					t.Errorf("check %d of %v: %+v", i, checks[i].Buckets, decision)
				}
			}
		}
		for name, expectsNew := range map[string]bool{"old": false, "new": true} {
			store := connect(t, d, session.Options{LockWait: time.Hour})
			ask(store, check(user(name+" known"), user(name+" too"))) // so that the zone is known
			store.cache.unseenAreNew.Store(expectsNew)
			end := making(t, d, user(name))
			ask(store, check(user(name)), 0)
			checks := check(user(name))
			for i := range others {
				checks = append(checks, check(user(fmt.Sprint(name, i)))...)
			}
			ask(store, append(checks, check(user(name), user(name+" with it"))[0]), 0, others+1)
			end(name == "old")
			ask(store, []service.Check{
				{Buckets: []service.Bucket{user(name + " after")}},
				{Buckets: []service.Bucket{user(name + " again")}},
			})
			checks = check(user(name), user(name+" with it"))
			if decisions, err := store.CheckAll(t.Context(), service.Call{Checks: checks}); err != nil ||
				decisions[0].Err != nil {
				t.Errorf("%s, once it is there or not: %+v, %v", name, decisions, err)
			}
		}
		wantSettled(t, d, zone(1, 100, time.Hour))
	})
}

func TestRowsAreMadeImmediatelyForMostlyNewBuckets(t *testing.T) {
	t.Parallel()
	enginetest.One(t, func(t *testing.T, on *enginetest.Engine) {
		d := on.Database(t, zone(1, 100, time.Hour))
		d.Hold(t, user("old"))()
		d.Hold(t, user("older"))()
		store := connect(t, d, session.Options{})
		for i, step := range []struct {
			checks []service.Check
			new    int // of which rows are made before it is known that there are none
		}{
			{check(user("a"), user("b")), 0},       // the zone is not known
			{check(user("c"), user("d")), 2},       // as the two before
			{check(user("a"), user("e")), 1},       // one of them is known
			{check(user("old"), user("older")), 2}, // which time out
			{check(user("f"), user("g")), 0},
			{append(check(user("h")), check(service.Bucket{ZoneID: 2, Key: "no such zone"}, user("i"))[0]), 1},
			{ruled(check(user("j"), user("k"))), 2}, // the rule says less than the zone, and means the same
		} {
			if made := newBatch(store.cache, &session.Conn{Engine: engine.MySQL, Shards: new(session.Shards)},
				service.Call{Checks: step.checks}).likelyNew(); len(made) != step.new {
				t.Errorf("step %d makes %v, want %d", i, made, step.new)
			}
			decisions, err := store.CheckAll(t.Context(), service.Call{Checks: step.checks})
			if err != nil || decisions[0].Err != nil {
				t.Errorf("step %d: %+v, %v", i, decisions, err)
			}
		}
		d.WantCount(t, 0, "SELECT COUNT(*) FROM zone_bucket_lock WHERE zone_id = 2 OR bucket_key = 'i'")
	})
}

// ruled returns checks of one bucket whose keys were normalised by the default rule, written in short.
func ruled(checks []service.Check) []service.Check {
	for i := range checks {
		checks[i].KeyRules = make([]service.KeyRule, len(checks[i].Buckets))
	}
	return checks
}

func TestNoRowIsLeftInDeletedZone(t *testing.T) {
	t.Parallel()
	enginetest.Each(t, func(t *testing.T, on *enginetest.Engine) {
		d, store := stand(t, on, session.Options{}, zone(1, 100, time.Hour), zone(2, 100, time.Hour))
		other := func(key string) service.Bucket { return service.Bucket{ZoneID: 2, Key: key} }
		decide(t, store, check(user("a"), other("a")))
		d.DeleteZone(t, 2)
		checks := append(check(user("b"), user("c")), check(other("b"))[0])
		if made := newBatch(store.cache, &session.Conn{Engine: engine.MySQL, Shards: new(session.Shards)},
			service.Call{Checks: checks}).likelyNew(); len(made) != 3 {
			t.Errorf("makes %v, want all three", made)
		}
		decisions, err := store.CheckAll(t.Context(), service.Call{Checks: checks})
		if err != nil || decisions[0].Err != nil || !errors.Is(decisions[1].Err, service.ErrNotFound) {
			t.Errorf("got %+v, %v", decisions, err)
		}
		d.WantCount(t, 2, "SELECT COUNT(*) FROM zone_bucket_lock WHERE bucket_key <> 'a'")
	})
}

// TestLastMomentRowOfAnotherSessionIsRead lets another session commit a row, with a
// lockout, after a batch has found it missing and before the batch's INSERT gets to it: the INSERT
// waits for the gap before it.
func TestLastMomentRowOfAnotherSessionIsRead(t *testing.T) {
	t.Parallel()
	enginetest.Each(t, func(t *testing.T, engine *enginetest.Engine) {
		locking := zone(1, 5, time.Minute)
		locking.Lockout = time.Hour
		d, store := stand(t, engine, session.Options{}, locking)
		d.LeaveUnaudited() // no txn begins the lockout
		other, err := d.SQL.BeginTx(t.Context(), &sql.TxOptions{Isolation: sql.LevelRepeatableRead})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = other.Rollback() })
		enginetest.Exec(t, other, "SELECT 1 FROM zone_bucket_lock WHERE zone_id = 1 AND bucket_key = 'a' FOR UPDATE")
		var decision service.Decision
		var asking sync.WaitGroup
		asking.Go(func() { decision, err = ask(t.Context(), store, check(user("a"), user("b"))) })
		d.AwaitWaiting(t, 1)
		enginetest.Exec(t, other, "INSERT INTO zone_bucket_lock (zone_id, bucket_key, locked_until, lockout_us) "+
			"VALUES (1, 'b', UTC_TIMESTAMP(6) + INTERVAL 1 HOUR, 3600000000)")
		if err := other.Commit(); err != nil {
			t.Fatal(err)
		}
		asking.Wait()
		if err != nil || !decision.Blocked {
			t.Errorf("got %+v, %v: want it blocked by the lockout of b", decision, err)
		}
		d.AwaitNone(t, "the test")
	})
}

// TestBatchNeverMeetsUnrequestedRow asks for many new buckets of a small table in
// which another row is held: an engine that reads the table from end to end meets it.
func TestBatchNeverMeetsUnrequestedRow(t *testing.T) {
	t.Parallel()
	enginetest.One(t, func(t *testing.T, engine *enginetest.Engine) {
		d, store := stand(t, engine, session.Options{}, zone(1, 100, time.Hour))
		decide(t, store, check(user("a"), user("b")))
		d.Hold(t, user("not asked for"))
		var checks []service.Check
		for i := range 300 {
			checks = append(checks, check(user(fmt.Sprint("new-", i)))...)
		}
		b := newBatch(store.cache, checkConnOf(t, store), service.Call{Checks: checks})
		if err := store.lockAll(t.Context(), b); err != nil {
			t.Error(err)
		}
		if err := b.roll(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

// TestHeldBucketIsGivenUpDespiteForgottenHints empties the memory of buckets before each
// packet: the batch itself must remember the rows that it found taken.
func TestHeldBucketIsGivenUpDespiteForgottenHints(t *testing.T) {
	t.Parallel()
	enginetest.One(t, func(t *testing.T, engine *enginetest.Engine) {
		d := engine.Database(t, zone(1, 100, time.Hour))
		d.Hold(t, user("held"))
		store := connect(t, d, session.Options{})
		conn := checkConnOf(t, store)
		conn.DriverConn = edited{conn.DriverConn, func(query string) string {
			for i := range store.cache.seen {
				store.cache.seen[i].Store(0)
			}
			return query
		}}
		checks := append(check(user("free")), check(user("held"))...)
		b := newBatch(store.cache, conn, service.Call{Checks: checks, NoWait: true})
		err := store.lockAll(t.Context(), b)
		if err != nil || !b.isHeld(1) || b.isHeld(0) {
			t.Errorf("%v, shares %+v, want the first free and the second held", err, b.of)
		}
		if err := b.roll(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

// TestDirtyReadDoesNotAffectNextTransaction looks at a row that another session has made and not
// committed: the dirty read sees it, and the next statements of the session do not, also after one that
// has waited for a lock until the lock wait was over.
func TestDirtyReadDoesNotAffectNextTransaction(t *testing.T) {
	t.Parallel()
	enginetest.Each(t, func(t *testing.T, engine *enginetest.Engine) {
		d, store := stand(t, engine, session.Options{LockWait: time.Second}, zone(1, 100, time.Hour))
		decide(t, store, check(user("there")))
		making(t, d, user("in the making"))
		b := newBatch(store.cache, checkConnOf(t, store),
			service.Call{Checks: check(user("there"), user("in the making"), user("missing"))})
		seen := func() int {
			var r session.Reading
			n := 0
			r.SQL("SELECT 1 FROM zone_bucket_lock")
			r.Each(1, func([]driver.Value) error { n++; return nil })
			if err := r.Send(t.Context(), b.conn); err != nil {
				t.Fatal(err)
			}
			return n
		}
		all := []int{0, 1, 2}
		if lacking, err := b.dialect.lacking(t.Context(), b, all); err != nil || len(lacking) != 1 ||
			b.buckets[lacking[0]] != user("missing") {
			t.Errorf("lacking %v, %v, want the missing row alone", b.named(lacking), err)
		}
		if n := seen(); n != 1 {
			t.Errorf("the next statement sees %d rows, want the one that is committed", n)
		}
		_, err := b.conn.ExecContext(t.Context(), "SET TRANSACTION ISOLATION LEVEL READ UNCOMMITTED; "+
			"INSERT INTO zone_bucket_lock (zone_id, bucket_key) VALUES (1, 'in the making') ON DUPLICATE KEY UPDATE zone_id = 1",
			nil)
		if !session.IsNumber(err, session.NumberLockWait) {
			t.Fatalf("got %v, want the lock wait to be over", err)
		}
		if n := seen(); n != 1 {
			t.Errorf("after a lock wait the next statement sees %d rows, want the one that is committed", n)
		}
	})
}
