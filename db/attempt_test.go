package db

import (
	"context"
	"errors"
	"testing"
	"time"

	"velocityd/db/session"
	"velocityd/service"
	"velocityd/tools/enginetest"
)

func attempt(id string, buckets ...service.Bucket) []service.Check {
	return []service.Check{{Buckets: buckets, AttemptID: id}}
}

func TestRetryAfterLostAnswerGetsFirstDecision(t *testing.T) {
	t.Parallel()
	enginetest.Each(t, func(t *testing.T, engine *enginetest.Engine) {
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
	enginetest.Each(t, func(t *testing.T, engine *enginetest.Engine) {
		d, store := stand(t, engine, session.Options{LockWait: 20 * time.Second}, zone(1, 100, time.Hour))
		d.LeaveUnaudited() // an answer has no txn
		decide(t, store, attempt("x", user("old")))
		enginetest.Exec(t, d.SQL, "UPDATE zone_attempt SET expires_at = UTC_TIMESTAMP(6)")
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
		enginetest.Exec(t, other, "COMMIT")
		if err := <-ended; !errors.Is(err, service.ErrConflict) {
			t.Errorf("got %v, want ErrConflict: the other session was first", err)
		}
		d.WantCount(t, 1, "SELECT COUNT(*) FROM zone_attempt WHERE JSON_EXTRACT(answer, '$[0][1]') = 'others'")
		if n := len(d.Txns(t, user("mine"))); n != 0 {
			t.Errorf("recorded %d txns for an attempt_id of another", n)
		}
	})
}

func TestOnlyExpiredAttemptsAreForgottenInCallersTransaction(t *testing.T) {
	t.Parallel()
	enginetest.Each(t, func(t *testing.T, engine *enginetest.Engine) {
		d := engine.Database(t)
		d.LeaveUnaudited() // the answers are none
		enginetest.Exec(t, d.SQL, `INSERT INTO zone_attempt (attempt_id, created_at, expires_at, answer) VALUES
('a', '2026-01-02', UTC_TIMESTAMP(6) - INTERVAL 1 SECOND, '[]'), ('a ', '2026-01-02', UTC_TIMESTAMP(6), '[]'),
('A', '2026-01-02', UTC_TIMESTAMP(6) + INTERVAL 1 HOUR, '[]'), ('b', '2026-01-02', UTC_TIMESTAMP(6) - INTERVAL 1 SECOND, '[]')`)
		left := func() int { return d.Count(t, "SELECT COUNT(*) FROM zone_attempt") }
		conn := sqlSession(t, d, "SET SESSION timestamp = 4000000000 - 2000000000", "START TRANSACTION",
			`CALL forget_attempts('["a","A","never"]')`, "ROLLBACK")
		if n := left(); n != 4 {
			t.Errorf("%d attempts are left after a ROLLBACK, want 4", n)
		}
		enginetest.Exec(t, conn, `CALL forget_attempts('["a","A","never"]')`)
		if n := left(); n != 3 {
			t.Errorf("%d attempts are left, want 3", n)
		}
		other := sqlSession(t, d, "START TRANSACTION", "SELECT * FROM zone_attempt WHERE attempt_id = 'b' FOR UPDATE")
		enginetest.Exec(t, conn, "SET SESSION innodb_lock_wait_timeout = 1")
		enginetest.Exec(t, conn, `CALL forget_attempts('["a "]')`) // a scan would wait for the other
		enginetest.Exec(t, other, "ROLLBACK")
		if n := left(); n != 2 {
			t.Errorf("%d attempts are left, want 2", n)
		}
	})
}

// reportByID reports a success by the attempt id of these tests, "id".
func reportByID(t *testing.T, store *Store) error {
	t.Helper()
	receipts, err := store.ReportAll(t.Context(), []service.Report{{AttemptID: "id", Outcome: service.OutcomeSuccess}})
	if err != nil {
		t.Fatal(err)
	}
	return receipts[0]
}

// TestAttemptUnderWayIsNeitherFoundNorAwaited holds the row of an attempt as its check does before the COMMIT.
func TestAttemptUnderWayIsNeitherFoundNorAwaited(t *testing.T) {
	t.Parallel()
	eachForm(t, func(t *testing.T, f form) {
		d, store := f.stand(t, session.Options{LockWait: time.Minute}, failures())
		decideOne(t, store, attempt("id", user("alice")))
		enginetest.Exec(t, d.SQL, "CREATE TABLE saved LIKE zone_attempt")
		enginetest.Exec(t, d.SQL, "INSERT INTO saved SELECT * FROM zone_attempt")
		enginetest.Exec(t, d.SQL, "DELETE FROM zone_attempt")
		other := sqlSession(t, d, "START TRANSACTION", "INSERT INTO zone_attempt SELECT * FROM saved")
		if err := reportByID(t, store); !errors.Is(err, service.ErrNotFound) {
			t.Errorf("under way: %v, want ErrNotFound", err)
		}
		if _, err := store.History.Attempt(t.Context(), "id"); !errors.Is(err, service.ErrNotFound) {
			t.Errorf("under way: %v, want ErrNotFound", err)
		}
		enginetest.Exec(t, other, "COMMIT")
		if err := reportByID(t, store); err != nil {
			t.Errorf("answered: %v", err)
		}
		enginetest.Exec(t, d.SQL, "DROP TABLE saved")
	})
}

func TestAttemptIDNamesTxnsBeyondFloats(t *testing.T) {
	t.Parallel()
	const high = 1<<53 + 12
	eachForm(t, func(t *testing.T, f form) {
		d, store := f.stand(t, session.Options{}, failures(), zone(2, 9, time.Hour))
		enginetest.Exec(t, d.SQL, "ALTER TABLE zone_txn AUTO_INCREMENT = 9007199254741005") // 2^53 + 13
		decision, err := ask(t.Context(), store, attempt("id", user("alice"), service.Bucket{ZoneID: 2, Key: "b"}))
		if err != nil || decision.TxnID() <= high {
			t.Fatalf("%+v, %v", decision, err)
		}
		if err := reportByID(t, store); err != nil {
			t.Error(err)
		}
		found, err := store.History.Attempt(t.Context(), "id")
		if err != nil || found.Decision.TxnID() != decision.TxnID() || len(found.Txns) != 2 ||
			found.Txns[1].ID != decision.Verdicts[1].TxnID ||
			found.Outcome != service.OutcomeSuccess {
			t.Errorf("recalled %+v, %v, want txn %d", found, err, decision.TxnID())
		}
		if f.engine == nil {
			return
		}
		var id, outcome string
		var txnID uint64
		if err := d.SQL.QueryRow("CALL report_attempt('id', 'success')").Scan(&id, &outcome, &txnID); err != nil ||
			txnID != decision.TxnID() {
			t.Errorf("CALL report_attempt: txn %d, %v, want %d", txnID, err, decision.TxnID())
		}
	})
}

func TestAnAttemptOutlivesItsTxns(t *testing.T) {
	t.Parallel()
	eachForm(t, func(t *testing.T, f form) {
		d, store := f.stand(t, session.Options{}, failures())
		decideOne(t, store, attempt("id", user("a"), user("b")))
		d.LeaveUnaudited()
		enginetest.Exec(t, d.SQL, "DELETE FROM zone_txn WHERE bucket_key = 'b'")
		if found, err := store.History.Attempt(t.Context(), "id"); err != nil || len(found.Txns) != 1 ||
			len(found.Decision.Verdicts) != 2 {
			t.Errorf("recalled %+v, %v, want one of two txns", found, err)
		}
		if err := reportByID(t, store); err != nil {
			t.Error(err)
		}
		enginetest.Exec(t, d.SQL, "DELETE FROM zone_txn")
		if err := reportByID(t, store); !errors.Is(err, service.ErrNotFound) {
			t.Errorf("without txns: %v, want ErrNotFound", err)
		}
		if found, err := store.History.Attempt(t.Context(), "id"); err != nil || found.Txns != nil || found.Outcome != "" {
			t.Errorf("recalled %+v, %v", found, err)
		}
	})
}

// TestManyAttemptReportsAreLookedUpInParts reports more outcomes than one look-up takes, with an id twice.
func TestManyAttemptReportsAreLookedUpInParts(t *testing.T) {
	t.Parallel()
	eachForm(t, func(t *testing.T, f form) {
		_, store := f.stand(t, session.Options{}, failures())
		var checks []service.Check
		var reports []service.Report
		ids := []string{"a", "A", "a ", "b"}
		for i := range 201 {
			ids = append(ids, string(rune('!'+i%90))+string(rune('!'+i/90)))
		}
		for _, id := range ids {
			checks = append(checks, attempt(id, user("alice"))...)
			reports = append(reports, service.Report{AttemptID: id, Outcome: service.OutcomeFailure})
		}
		decide(t, store, checks[:100])
		for range 2 {
			receipts, err := store.ReportAll(t.Context(), append(reports, reports[0]))
			if err != nil {
				t.Fatal(err)
			}
			for i, got := range receipts {
				if known := i < 100 || i == len(reports); known != (got == nil) || !known && !errors.Is(got, service.ErrNotFound) {
					t.Errorf("report %d: %v", i, got)
				}
			}
		}
	})
}

func TestAForgottenAttemptStaysForgottenAtAnyClock(t *testing.T) {
	t.Parallel()
	enginetest.Each(t, func(t *testing.T, engine *enginetest.Engine) {
		d, store := stand(t, engine, session.Options{}, failures())
		decideOne(t, store, attempt("id", user("a")))
		enginetest.Exec(t, d.SQL, "UPDATE zone_attempt SET expires_at = UTC_TIMESTAMP(6)")
		conn := sqlSession(t, d, "SET SESSION timestamp = 1000000000")
		if _, err := conn.ExecContext(t.Context(), "CALL report_attempt('id', 'success')"); !session.IsNumber(
			err, session.NumberUnknown) {
			t.Errorf("got %v, want error %d", err, session.NumberUnknown)
		}
	})
}
