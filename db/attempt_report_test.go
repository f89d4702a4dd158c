package db

import (
	"errors"
	"testing"
	"time"

	"velocityd/db/dbtest"
	"velocityd/db/session"
	"velocityd/service"
)

// reportByID reports a success by the attempt id of these tests, "id".
func reportByID(t *testing.T, store *Store) error {
	t.Helper()
	receipts, err := store.ReportAll(t.Context(), []service.Report{{AttemptID: "id", Outcome: service.OutcomeSuccess}})
	if err != nil {
		t.Fatal(err)
	}
	return receipts[0]
}

// TestAnAttemptUnderWayIsNotFoundAndNotWaitedFor holds the row of an attempt as its check does before the COMMIT.
func TestAnAttemptUnderWayIsNotFoundAndNotWaitedFor(t *testing.T) {
	t.Parallel()
	eachForm(t, func(t *testing.T, f form) {
		d, store := f.stand(t, session.Options{LockWait: time.Minute}, failures())
		decideOne(t, store, attempt("id", user("alice")))
		dbtest.Exec(t, d.SQL, "CREATE TABLE saved LIKE zone_attempt")
		dbtest.Exec(t, d.SQL, "INSERT INTO saved SELECT * FROM zone_attempt")
		dbtest.Exec(t, d.SQL, "DELETE FROM zone_attempt")
		other := sqlSession(t, d, "START TRANSACTION", "INSERT INTO zone_attempt SELECT * FROM saved")
		if err := reportByID(t, store); !errors.Is(err, service.ErrNotFound) {
			t.Errorf("under way: %v, want ErrNotFound", err)
		}
		if _, err := store.History.Attempt(t.Context(), "id"); !errors.Is(err, service.ErrNotFound) {
			t.Errorf("under way: %v, want ErrNotFound", err)
		}
		dbtest.Exec(t, other, "COMMIT")
		if err := reportByID(t, store); err != nil {
			t.Errorf("answered: %v", err)
		}
		dbtest.Exec(t, d.SQL, "DROP TABLE saved")
	})
}

func TestAnAttemptIDStandsForTxnsThatNoFloatHolds(t *testing.T) {
	t.Parallel()
	const high = 1<<53 + 12
	eachForm(t, func(t *testing.T, f form) {
		d, store := f.stand(t, session.Options{}, failures(), zone(2, 9, time.Hour))
		dbtest.Exec(t, d.SQL, "ALTER TABLE zone_txn AUTO_INCREMENT = 9007199254741005") // 2^53 + 13
		decision, err := ask(t.Context(), store, attempt("id", user("alice"), service.Bucket{ZoneID: 2, Key: "b"}))
		if err != nil || decision.TxnID() <= high {
			t.Fatalf("%+v, %v", decision, err)
		}
		if err := reportByID(t, store); err != nil {
			t.Error(err)
		}
		found, err := store.History.Attempt(t.Context(), "id")
		if err != nil || found.Decision.TxnID() != decision.TxnID() || len(found.Txns) != 2 || found.Txns[1].ID != decision.Verdicts[1].TxnID ||
			found.Outcome != service.OutcomeSuccess {
			t.Errorf("recalled %+v, %v, want txn %d", found, err, decision.TxnID())
		}
		if f.engine == nil {
			return
		}
		var id, outcome string
		var txnID uint64
		if err := d.SQL.QueryRow("CALL report_attempt('id', 'success')").Scan(&id, &outcome, &txnID); err != nil || txnID != decision.TxnID() {
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
		dbtest.Exec(t, d.SQL, "DELETE FROM zone_txn WHERE bucket_key = 'b'")
		if found, err := store.History.Attempt(t.Context(), "id"); err != nil || len(found.Txns) != 1 || len(found.Decision.Verdicts) != 2 {
			t.Errorf("recalled %+v, %v, want one of two txns", found, err)
		}
		if err := reportByID(t, store); err != nil {
			t.Error(err)
		}
		dbtest.Exec(t, d.SQL, "DELETE FROM zone_txn")
		if err := reportByID(t, store); !errors.Is(err, service.ErrNotFound) {
			t.Errorf("without txns: %v, want ErrNotFound", err)
		}
		if found, err := store.History.Attempt(t.Context(), "id"); err != nil || found.Txns != nil || found.Outcome != "" {
			t.Errorf("recalled %+v, %v", found, err)
		}
	})
}

// TestReportsByManyAttemptIDsAreLookedUpInParts reports more outcomes than one look-up takes, with an id twice.
func TestReportsByManyAttemptIDsAreLookedUpInParts(t *testing.T) {
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

func TestAForgottenAttemptStaysForgottenWhateverTheSessionsClockSays(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, engine *dbtest.Engine) {
		d, store := stand(t, engine, session.Options{}, failures())
		decideOne(t, store, attempt("id", user("a")))
		dbtest.Exec(t, d.SQL, "UPDATE zone_attempt SET expires_at = UTC_TIMESTAMP(6)")
		conn := sqlSession(t, d, "SET SESSION timestamp = 1000000000")
		if _, err := conn.ExecContext(t.Context(), "CALL report_attempt('id', 'success')"); !session.IsNumber(err, session.NumberUnknown) {
			t.Errorf("got %v, want error %d", err, session.NumberUnknown)
		}
	})
}
