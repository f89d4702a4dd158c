package db

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
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
		d := engine.Database(t, zone(1, 5, time.Hour))
		p := dbtest.Through(t, d.DSN)
		store := connect(t, &dbtest.Database{DSN: p.DSN}, session.Options{LockWait: 20 * time.Second, MaxConns: 1})
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

func TestOneAttemptIDInTwoPlacesAtOnceDecidesOne(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, engine *dbtest.Engine) {
		d, store := stand(t, engine, session.Options{LockWait: 20 * time.Second}, zone(1, 100, time.Hour))
		for round := range 10 {
			id := fmt.Sprint("round-", round)
			const callers = 4
			results := make(chan error, callers)
			start := make(chan struct{})
			for caller := range callers {
				go func() {
					<-start
					decisions, err := store.CheckAll(context.Background(), service.Call{Checks: attempt(id, user(fmt.Sprint("key-", caller)))})
					if err == nil {
						err = decisions[0].Err
					}
					results <- err
				}()
			}
			close(start)
			decided := 0
			for range callers {
				switch err := <-results; {
				case err == nil:
					decided++
				case !errors.Is(err, service.ErrConflict):
					t.Error(err)
				}
			}
			if n := d.Count(t, "SELECT COUNT(*) FROM zone_txn WHERE attempt_id = ?", id); decided != 1 || n != 1 {
				t.Errorf("%s: %d decided and %d txns, want 1", id, decided, n)
			}
		}
		d.Audit(t, zone(1, 100, time.Hour))
	})
}

// TestAnExpiredAttemptIsTakenOverByOne lets one session wait for another that is
// just giving an expired attempt_id a new meaning.
func TestAnExpiredAttemptIsTakenOverByOne(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, engine *dbtest.Engine) {
		d, store := stand(t, engine, session.Options{LockWait: 20 * time.Second}, zone(1, 100, time.Hour))
		d.LeaveUnaudited() // an answer has no txn
		if _, err := store.CheckAll(t.Context(), service.Call{Checks: attempt("x", user("old"))}); err != nil {
			t.Fatal(err)
		}
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
		if n := d.Count(t, "SELECT COUNT(*) FROM zone_attempt WHERE JSON_EXTRACT(answer, '$[0][1]') = 'others'"); n != 1 {
			t.Error("the answer of the other session is forgotten")
		}
		if n := len(d.Txns(t, user("mine"))); n != 0 {
			t.Errorf("recorded %d txns for an attempt_id of another", n)
		}
	})
}

func TestAttemptIDsDifferByCaseAndTrailingSpaceAndAreForgotten(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, engine *dbtest.Engine) {
		d, store := stand(t, engine, session.Options{}, zone(1, 100, time.Hour))
		ids := []string{"a", "A", "a ", " a", "~", strings.Repeat("x", 64), strings.Repeat("x", 63), `"\'%`}
		ask := func(id string) uint64 {
			decisions, err := store.CheckAll(t.Context(), service.Call{Checks: attempt(id, user("alice"))})
			if err != nil || decisions[0].Err != nil {
				t.Fatalf("%q: %+v, %v", id, decisions, err)
			}
			return decisions[0].TxnID()
		}
		first := map[string]uint64{}
		for _, id := range ids {
			first[id] = ask(id)
		}
		for _, id := range ids {
			if again := ask(id); again != first[id] {
				t.Errorf("%q: txn %d, want %d", id, again, first[id])
			}
			if got := d.Txns(t, user("alice"))[first[id]-first["a"]].AttemptID; got != id {
				t.Errorf("%q is recorded as %q", id, got)
			}
		}
		dbtest.Exec(t, d.SQL, "UPDATE zone_attempt SET expires_at = UTC_TIMESTAMP(6)")
		for _, id := range ids {
			if again := ask(id); again == first[id] {
				t.Errorf("%q: still answered as before, though it has expired", id)
			} else if ask(id) != again {
				t.Errorf("%q: the new answer is not remembered", id)
			}
		}
		if n := len(d.Txns(t, user("alice"))); n != 2*len(ids) {
			t.Errorf("%d txns, want %d", n, 2*len(ids))
		}
	})
}

func TestBadAttemptIDsFromSQLAreRefused(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, engine *dbtest.Engine) {
		d := engine.Database(t, zone(1, 100, time.Hour))
		for _, mode := range []string{"STRICT_ALL_TABLES", ""} {
			conn := sqlSession(t, d, "SET SESSION sql_mode = '"+mode+"'")
			for _, id := range []string{
				"", strings.Repeat("x", 65), strings.Repeat("x", 257), "é", "ſ", "\u212a", "a\tb", "a\n", "\n", "a\x00", "\x7f", "🔑",
			} {
				_, err := conn.ExecContext(t.Context(), `CALL check_velocity_buckets('[{"zone_id":1,"bucket_key":"a"}]', ?)`, id)
				if err == nil {
					t.Errorf("sql_mode %q: %.20s: taken", mode, id)
				}
			}
		}
		for _, table := range []string{"zone_txn", "zone_attempt", "zone_bucket_lock"} {
			if n := d.Count(t, "SELECT COUNT(*) FROM "+table); n != 0 {
				t.Errorf("left %d rows in %s", n, table)
			}
		}
	})
}

func TestAStaleKeyRuleIsRefusedBeforeAnyLockRow(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, engine *dbtest.Engine) {
		d, store := stand(t, engine, session.Options{}, zone(1, 5, time.Hour))
		name := service.KeyRule{Kind: service.KeyUsername}
		for what, question := range map[string][]service.Check{
			"single":        {{Buckets: []service.Bucket{user("a")}, KeyRules: []service.KeyRule{name}}},
			"second bucket": {{Buckets: []service.Bucket{user("a"), user("b")}, KeyRules: []service.KeyRule{{}, name}}},
			"behind a good one": {
				{Buckets: []service.Bucket{user("a")}, KeyRules: []service.KeyRule{{}}},
				{Buckets: []service.Bucket{user("b")}, KeyRules: []service.KeyRule{name}, AttemptID: "x"},
			},
			"among many": slices.Repeat([]service.Check{{Buckets: []service.Bucket{user("a")}, KeyRules: []service.KeyRule{name}}}, 20),
		} {
			if _, err := store.CheckAll(t.Context(), service.Call{Checks: question}); !errors.Is(err, service.ErrStaleKey) {
				t.Errorf("%s: %v, want ErrStaleKey", what, err)
			}
		}
		if n := d.Count(t, "SELECT COUNT(*) FROM zone_bucket_lock"); n != 0 {
			t.Errorf("%d lock rows were made", n)
		}
	})
}

func TestAThousandChecksOfEveryKindInOneCall(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, engine *dbtest.Engine) {
		d := engine.Database(t, zone(1, 3, time.Hour),
			service.Zone{ID: 2, Rate: 2, Window: time.Hour, Mode: service.ModeShadow, Lockout: time.Minute},
			service.Zone{ID: 3, Rate: 9, Window: time.Hour, Keys: service.KeyRule{Kind: service.KeyIP, IPv6Prefix: 64}},
			service.Zone{ID: 4, Window: time.Hour, Mode: service.ModeOff})
		d.SetOverride(t, service.Override{ZoneID: 1, Key: "u7", Action: service.OverrideDeny})
		blocked := within("10.0.0.0/8")
		blocked.ZoneID, blocked.Action = 3, service.OverrideDeny
		d.SetOverride(t, blocked)
		checks := make([]service.Check, service.MaxChecks)
		for i := range checks {
			key := fmt.Sprint("u", i%50)
			checks[i] = service.Check{Buckets: []service.Bucket{
				{ZoneID: 1, Key: key}, {ZoneID: 2, Key: key}, {ZoneID: 3, Key: fmt.Sprintf("%d.0.0.%d", 10+i%3, i%50)}, {ZoneID: 4, Key: key},
			}}
			switch i % 5 {
			case 0: // each id twice
				checks[i].AttemptID = fmt.Sprint("attempt-", i%500)
			case 1:
				checks[i].Buckets = checks[i].Buckets[:1]
			case 2:
				checks[i].Buckets[3].ZoneID = 404
			}
		}
		// The second of two with one id names other addresses, or the same.
		decisions, err := connect(t, d, session.Options{}).CheckAll(t.Context(), service.Call{Checks: checks})
		if err != nil {
			t.Fatal(err)
		}
		kinds := map[string]int{}
		for i, got := range decisions {
			switch {
			case errors.Is(got.Err, service.ErrNotFound):
				kinds["not found"]++
			case errors.Is(got.Err, service.ErrConflict):
				kinds["conflict"]++
			case got.Err != nil || len(got.Verdicts) != len(checks[i].Buckets):
				t.Errorf("check %d: %+v", i, got)
			default:
				kinds["decided"]++
			}
		}
		if kinds["not found"] != 200 || kinds["conflict"] != 100 || kinds["decided"] != 700 {
			t.Errorf("got %v", kinds)
		}
		d.Audit(t, zone(1, 3, time.Hour), service.Zone{ID: 2, Rate: 2, Window: time.Hour, Mode: service.ModeShadow},
			zone(3, 9, time.Hour), service.Zone{ID: 4, Window: time.Hour, Mode: service.ModeOff})
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
