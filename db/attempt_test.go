package db

import (
	"context"
	"errors"
	"testing"
	"time"

	"velocityd/db/dbtest"
	"velocityd/db/session"
	"velocityd/service"
)

func attempt(id string, buckets ...service.Bucket) []service.Check {
	return []service.Check{{Buckets: buckets, AttemptID: id}}
}

func TestARetryAfterALostAnswerGetsTheFirstDecision(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, engine *dbtest.Engine) {
		d, p, store := through(t, engine, session.Options{LockWait: 20 * time.Second, MaxConns: 1}, zone(1, 5, time.Hour))
		p.BeforeAnswer("INSERT INTO zone_txn", p.Cut)
		lost, err := store.CheckAll(t.Context(), service.Call{Checks: attempt("once", user("alice"), user("bob"))})
		if !errors.Is(err, service.ErrUndecided) {
			t.Errorf("connection cut: %+v, %v, want ErrUndecided", lost, err)
		}
		first, err := store.CheckAll(t.Context(), service.Call{Checks: attempt("once", user("alice"), user("bob"))})
		if err != nil || first[0].Err != nil || first[0].Blocked {
			t.Fatalf("retry: %+v, %v", first, err)
		}
		again, err := store.CheckAll(t.Context(), service.Call{Checks: attempt("once", user("bob"), user("alice"))})
		if err != nil || again[0].Verdicts[1] != first[0].Verdicts[0] || !again[0].CheckedAt.Equal(first[0].CheckedAt.Time) {
			t.Errorf("second retry: %+v, %v, want %+v", again, err, first)
		}
		p.BeforeAnswer("ROLLBACK", p.Cut) // it has nothing to record
		third, err := store.CheckAll(t.Context(), service.Call{Checks: attempt("once", user("alice"), user("bob"))})
		if err != nil || third[0].Verdicts[0] != first[0].Verdicts[0] {
			t.Errorf("connection cut, third retry: %+v, %v, want %+v", third, err, first)
		}
		d.AwaitNone(t, "the test")
		if txns := d.Txns(t, user("alice")); len(txns) != 1 || txns[0].ID != first[0].TxnID() || txns[0].AttemptID != "once" {
			t.Errorf("recorded %+v, want one txn %d", txns, first[0].TxnID())
		}
	})
}

// TestAnExpiredAttemptIsTakenOverByOne lets one session wait for another that is
// just giving an expired attempt_id a new meaning.
func TestAnExpiredAttemptIsTakenOverByOne(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, engine *dbtest.Engine) {
		d, store := stand(t, engine, session.Options{LockWait: 20 * time.Second}, zone(1, 100, time.Hour))
		d.LeaveUnaudited() // an answer has no txn
		decide(t, store, attempt("x", user("old")))
		dbtest.Exec(t, d.SQL, "UPDATE zone_attempt SET expires_at = UTC_TIMESTAMP(6)")
		other := sqlSession(t, d, "START TRANSACTION", "DELETE FROM zone_attempt WHERE attempt_id = 'x'",
			`INSERT INTO zone_attempt (attempt_id, created_at, expires_at, answer)
VALUES ('x', UTC_TIMESTAMP(6), UTC_TIMESTAMP(6) + INTERVAL 1 DAY, '[[1,"others",0,0,77,100,3600,1,99,0,"",0,0]]')`)
		ended := make(chan error, 1)
		go func() {
			decisions, err := store.CheckAll(context.Background(), service.Call{Checks: attempt("x", user("mine"))})
			if err == nil {
				err = decisions[0].Err
			}
			ended <- err
		}()
		d.AwaitWaiting(t, 1)
		dbtest.Exec(t, other, "COMMIT")
		if err := <-ended; !errors.Is(err, service.ErrConflict) {
			t.Errorf("got %v, want ErrConflict: the other session was first", err)
		}
		d.WantCount(t, 1, "SELECT COUNT(*) FROM zone_attempt WHERE JSON_EXTRACT(answer, '$[0][1]') = 'others'")
		if n := len(d.Txns(t, user("mine"))); n != 0 {
			t.Errorf("recorded %d txns for an attempt_id of another", n)
		}
	})
}

func TestOnlyExpiredAttemptsAreForgottenAndInTheCallersTransaction(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, engine *dbtest.Engine) {
		d := engine.Database(t)
		d.LeaveUnaudited() // the answers are none
		dbtest.Exec(t, d.SQL, `INSERT INTO zone_attempt (attempt_id, created_at, expires_at, answer) VALUES
('a', '2026-01-02', UTC_TIMESTAMP(6) - INTERVAL 1 SECOND, '[]'), ('a ', '2026-01-02', UTC_TIMESTAMP(6), '[]'),
('A', '2026-01-02', UTC_TIMESTAMP(6) + INTERVAL 1 HOUR, '[]'), ('b', '2026-01-02', UTC_TIMESTAMP(6) - INTERVAL 1 SECOND, '[]')`)
		left := func() int { return d.Count(t, "SELECT COUNT(*) FROM zone_attempt") }
		conn := sqlSession(t, d, "SET SESSION timestamp = 4000000000 - 2000000000", "START TRANSACTION",
			`CALL forget_attempts('["a","A","never"]')`, "ROLLBACK")
		if n := left(); n != 4 {
			t.Errorf("%d attempts are left after a ROLLBACK, want 4", n)
		}
		dbtest.Exec(t, conn, `CALL forget_attempts('["a","A","never"]')`)
		if n := left(); n != 3 {
			t.Errorf("%d attempts are left, want 3", n)
		}
		other := sqlSession(t, d, "START TRANSACTION", "SELECT * FROM zone_attempt WHERE attempt_id = 'b' FOR UPDATE")
		dbtest.Exec(t, conn, "SET SESSION innodb_lock_wait_timeout = 1")
		dbtest.Exec(t, conn, `CALL forget_attempts('["a "]')`) // a scan would wait for the other
		dbtest.Exec(t, other, "ROLLBACK")
		if n := left(); n != 2 {
			t.Errorf("%d attempts are left, want 2", n)
		}
	})
}
