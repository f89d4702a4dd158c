package db

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"testing"
	"time"

	"velocityd/db/session"
	"velocityd/service"
	"velocityd/tools/enginetest"
)

// Changes by others between the two packets of a batch.

// checkConnOf returns a connection of a store for checks.
func checkConnOf(t *testing.T, store *Store) (inner *session.Conn) {
	t.Helper()
	conn, err := store.checks.Conn(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = conn.Raw(func(any) error { return driver.ErrBadConn }) // closes it
		_ = conn.Close()
	})
	if err := conn.Raw(func(own any) error { inner = own.(*session.Conn); return nil }); err != nil {
		t.Fatal(err)
	}
	return inner
}

// begun returns a batch that has sent its first packet and holds the locks of all
// its buckets, and what it is going to record.
func begun(t *testing.T, store *Store, conn *session.Conn, buckets ...service.Bucket) (*batch, *service.Ruling) {
	t.Helper()
	b := newBatch(store.cache, conn, service.Call{Checks: check(buckets...)})
	if err := store.lockAll(t.Context(), b); err != nil {
		t.Fatal(err)
	}
	ruling, err := b.decide(t.Context())
	if err != nil || len(b.inState(locked)) != len(buckets) || len(ruling.Txns) != len(buckets) {
		t.Fatalf("locked %v, ruled %+v, %v", b.inState(locked), ruling, err)
	}
	return b, ruling
}

// locking is a zone whose first check begins a lockout, and so is an event.
func locking() service.Zone {
	return service.Zone{ID: 1, Rate: 0, Window: time.Hour, Lockout: time.Hour}
}

// isFree says that no session holds the lock of a bucket.
func isFree(t *testing.T, d *enginetest.Database, bucket service.Bucket) bool {
	t.Helper()
	var one int
	err := d.SQL.QueryRow("SELECT 1 FROM zone_bucket_lock WHERE zone_id = ? AND bucket_key = ? FOR UPDATE NOWAIT",
		bucket.ZoneID, bucket.Key).Scan(&one)
	switch {
	case err == nil, errors.Is(err, sql.ErrNoRows):
		return true
	case !session.IsNumber(err, session.NumberLockWait) && !session.IsNumber(err, 3572): // MariaDB, MySQL
		t.Error(err)
	}
	return false
}

// wantNothing holds that nothing was recorded and no transaction is open.
func wantNothing(t *testing.T, d *enginetest.Database) {
	t.Helper()
	d.AwaitNone(t, "the test")
	d.WantCount(t, 0, "SELECT COUNT(*) FROM zone_txn")
	d.WantCount(t, 0, "SELECT COUNT(*) FROM zone_event WHERE type LIKE 'bucket.%'")
}

func TestSilentBatchLosesItsBucketsAndRecordsNothing(t *testing.T) {
	t.Parallel()
	enginetest.Each(t, func(t *testing.T, engine *enginetest.Engine) {
		d, store := stand(t, engine, session.Options{}, locking())
		for _, bucket := range []service.Bucket{user("new"), user("known")} {
			if bucket == user("known") {
				d.Hold(t, bucket)() // makes its row
			}
			inner := checkConnOf(t, store)
			silent, ruling := begun(t, store, inner, bucket)
			wantSilence(t, inner)
			enginetest.Eventually(t, "its bucket is free", func() bool { return isFree(t, d, bucket) })
			err := silent.commit(context.Background(), ruling)
			if kind := session.FaultOf(err).Kind; err == nil || !errors.Is(kind, service.ErrBusy) &&
				!errors.Is(kind, service.ErrUndecided) {
				t.Errorf("after its locks were gone: %v, and its caller is told %v", err, kind)
			}
			wantNothing(t, d)
		}
	})
}

// wantSilence asks how many seconds the engine lets a transaction be silent.
func wantSilence(t *testing.T, conn *session.Conn) {
	t.Helper()
	variable := "@@wait_timeout"
	if conn.IsMariaDB {
		variable = "@@idle_transaction_timeout"
	}
	var r session.Reading
	r.SQL("SELECT ").SQL(variable)
	r.Each(1, func(row []driver.Value) error {
		if seconds := session.AsInt(row[0]); seconds != 2 {
			t.Errorf("%s is %d within a batch, want 2", variable, seconds)
		}
		return nil
	})
	if err := r.Send(t.Context(), conn); err != nil {
		t.Error(err)
	}
}

func TestABatchOnAnotherConnectionRecordsNothing(t *testing.T) {
	t.Parallel()
	enginetest.Each(t, func(t *testing.T, engine *enginetest.Engine) {
		d, store := stand(t, engine, session.Options{}, locking())
		first := checkConnOf(t, store)
		other := checkConnOf(t, store)
		b, ruling := begun(t, store, first, user("alice"))
		b.conn = other
		if err := b.commit(t.Context(), ruling); !session.IsNumber(err, session.NumberNoSuchProcedure) ||
			!errors.Is(session.FaultOf(err).Kind, service.ErrBusy) {
			t.Errorf("recorded outside of its transaction: %v", err)
		}
		b.conn = first
		if err := b.roll(t.Context()); err != nil {
			t.Error(err)
		}
		wantNothing(t, d)
	})
}

func TestCutConnectionInstantlyFreesBucketsAndTellsTruth(t *testing.T) {
	t.Parallel()
	const first, second = "START TRANSACTION", "INSERT INTO zone_txn"
	enginetest.Each(t, func(t *testing.T, engine *enginetest.Engine) {
		for name, step := range map[string]struct {
			at   func(*enginetest.Proxy, string, func())
			text string
			kind error
			txns int
		}{
			// Nothing was recorded, and the next connection does it.
			"before the first packet": {(*enginetest.Proxy).Before, first, nil, 2},
			"before its answer":       {(*enginetest.Proxy).BeforeAnswer, first, nil, 2},
			"before the second":       {(*enginetest.Proxy).Before, second, service.ErrUndecided, 0},
			"before its answer, too":  {(*enginetest.Proxy).BeforeAnswer, second, service.ErrUndecided, 2},
		} {
			d := engine.Database(t, zone(1, 5, time.Hour))
			d.Hold(t, user("alice"))() // makes the row
			p := enginetest.Through(t, d.DSN)
			store := connect(t, &enginetest.Database{DSN: p.DSN}, session.Options{})
			step.at(p, step.text, p.Cut)
			decisions, err := store.CheckAll(t.Context(), service.Call{Checks: check(user("alice"), user("bob"))})
			if !errors.Is(err, step.kind) {
				t.Errorf("%s: %+v, %v, want %v", name, decisions, err, step.kind)
			}
			enginetest.Eventually(t, "its bucket is free", func() bool { return isFree(t, d, user("alice")) })
			d.AwaitNone(t, "the test")
			if n := d.Count(t, "SELECT COUNT(*) FROM zone_txn"); n != step.txns {
				t.Errorf("%s: %d txns, want %d", name, n, step.txns)
			}
			if decisions, err = store.CheckAll(
				t.Context(), service.Call{Checks: check(user("alice"), user("bob"))}); err != nil ||
				decisions[0].Blocked {
				t.Errorf("%s, the next check: %+v, %v", name, decisions, err)
			}
		}
	})
}

// TestCutConnectionDoesNotMeanDatabaseIsAway leaves no time for another try, which would tell.
func TestCutConnectionDoesNotMeanDatabaseIsAway(t *testing.T) {
	t.Parallel()
	enginetest.One(t, func(t *testing.T, engine *enginetest.Engine) {
		_, p, store := through(t, engine, session.Options{LockWait: time.Minute}, zone(1, 5, time.Hour))
		both := check(user("alice"), user("bob"))
		decideOne(t, store, both)
		p.BeforeAnswer("START TRANSACTION", p.Cut)
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if _, err := ask(ctx, store, both); !errors.Is(err, service.ErrBusy) || errors.Is(err, service.ErrAway) {
			t.Errorf("got %v", err)
		}
	})
}

func TestAnswerWithoutItsEndHoldsAndKeepsDeadline(t *testing.T) {
	t.Parallel()
	enginetest.One(t, func(t *testing.T, engine *enginetest.Engine) {
		_, p, store := through(t, engine, session.Options{MaxConns: 8}, zone(1, 50, time.Hour))
		hurried, patient := service.NewLimiter(store, service.LimiterOptions{Timeout: time.Second}),
			service.NewLimiter(store, service.LimiterOptions{Timeout: time.Minute})
		for _, checks := range [][]service.Check{check(user("alice")), check(user("alice"), user("bob"))} {
			p.Withhold.Store(true)
			asked := time.Now()
			decisions, err := hurried.CheckAll(context.Background(), checks)
			if took := time.Since(asked); took > 10*time.Second {
				t.Errorf("answered after %v, with a deadline of 1s", took)
			}
			// How much of the answer the last packet held differs: either it came
			// whole, or it is undecided. A batch whose first answer is lost recorded nothing.
			if err != nil && !errors.Is(err, service.ErrUndecided) && !errors.Is(err, service.ErrBusy) {
				t.Errorf("err = %v", err)
			}
			if err == nil && (decisions[0].Blocked || decisions[0].TxnID() == 0) {
				t.Errorf("decided as %+v", decisions[0])
			}
			p.Withhold.Store(false)
			if _, err := patient.CheckAll(context.Background(), checks); err != nil {
				t.Errorf("next check: %v", err)
			}
		}
	})
}
