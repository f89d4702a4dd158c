package db

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"velocityd/db/session"
	"velocityd/service"
	"velocityd/tools/enginetest"
)

// TestSplitCallTellsWhichChecksMayBeCounted cuts the connection after the
// first transaction was committed, and again whenever the second one begins.
func TestSplitCallTellsWhichChecksMayBeCounted(t *testing.T) {
	t.Parallel()
	const most, each = 250, 4 // checks of a transaction, buckets of a check
	enginetest.One(t, func(t *testing.T, engine *enginetest.Engine) {
		d, p, store := through(t, engine, session.Options{}, zone(1, 5, time.Hour))
		checks := make([]service.Check, most+50)
		for i := range checks {
			for j := range each {
				checks[i].Buckets = append(checks[i].Buckets, user(fmt.Sprint(i, "-", j)))
			}
		}
		p.BeforeAnswer("RELEASE SAVEPOINT", func() {
			enginetest.Eventually(t, "the first transaction is recorded", func() bool {
				return d.Count(t, "SELECT COUNT(*) FROM zone_txn") == most*each
			})
			cut := p.Cut
			for range 3 { // tries of the second transaction
				next := cut
				cut = func() {
					p.Before("START TRANSACTION", next)
					p.Cut()
				}
			}
			cut()
		})
		decisions, err := store.CheckAll(t.Context(), service.Call{Checks: checks})
		if err != nil || len(decisions) != len(checks) {
			t.Fatalf("%d decisions, %v", len(decisions), err)
		}
		for i, decision := range decisions {
			if mayBeCounted := errors.Is(decision.Err, service.ErrUndecided); decision.Err == nil || mayBeCounted != (i < most) {
				t.Fatalf("check %d: %+v", i, decision)
			}
		}
	})
}

// TestLongLockedTableLeavesOnlyAllowedConnections asks for checks, which wait for
// the table in their transactions, and for outcomes.
func TestLongLockedTableLeavesOnlyAllowedConnections(t *testing.T) {
	t.Parallel()
	enginetest.One(t, func(t *testing.T, engine *enginetest.Engine) {
		const conns, own, rounds, callers, kinds = 8, 2, 3, 6, 3
		d := engine.Database(t)
		d.SQL.SetMaxOpenConns(own)
		d.SetZone(t, zone(1, 200, time.Hour))
		store := connect(t, d, session.Options{MaxConns: conns})
		first := decided(t, store, user("a"))
		sqlSession(t, d, "LOCK TABLES zone_txn WRITE")
		for range rounds {
			ended := make(chan error)
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			for range callers {
				go func() {
					_, err := store.ReportAll(ctx, []service.Report{{TxnID: first.TxnID(), Outcome: service.OutcomeFailure}})
					ended <- err
				}()
				go func() {
					_, err := store.CheckAll(ctx, service.Call{Checks: check(user("a"), user("b"))})
					ended <- err
				}()
				go func() {
					_, err := store.History.Txn(ctx, first.TxnID())
					ended <- err
				}()
			}
			for range kinds * callers {
				if err := <-ended; err == nil {
					t.Error("answered beside a locked table")
				}
			}
			cancel()
			if n := len(d.Sessions(t)); n > conns+own {
				t.Errorf("%d connections, want %d at most", n-own, conns)
			}
		}
		enginetest.Eventually(t, "no session waits for the table any more", func() bool {
			if n := len(d.Sessions(t)); n > conns+own {
				t.Fatalf("%d connections, want %d at most", n-own, conns)
			}
			open, _ := d.Transactions(t)
			return open == 0
		})
	})
}

// TestExhaustedIDsLeaveNoTxnOrTransaction has the engine run out of ids, which it
// says by error 1467. MySQL runs no handler of a procedure for it.
func TestExhaustedIDsLeaveNoTxnOrTransaction(t *testing.T) {
	t.Parallel()
	enginetest.One(t, func(t *testing.T, engine *enginetest.Engine) {
		d, store := stand(t, engine, session.Options{}, zone(1, 5, time.Hour))
		// A partitioned table of MariaDB does not answer by 1467.
		enginetest.Exec(t, d.SQL, "ALTER TABLE zone_txn REMOVE PARTITIONING")
		enginetest.Exec(t, d.SQL, "ALTER TABLE zone_txn AUTO_INCREMENT = 18446744073709551615")
		for name, checks := range map[string][]service.Check{
			"lone": check(user("a")), "pair": check(user("a"), user("b")),
			"two checks": append(check(user("a")), check(user("b"))...),
		} {
			if _, err := store.CheckAll(t.Context(), service.Call{Checks: checks}); !session.IsNumber(err, 1467) ||
				!errors.Is(err, service.ErrBusy) {
				t.Errorf("%s: %v", name, err)
			}
			d.AwaitNone(t, name)
		}
		caller := sqlSession(t, d)
		for range 2 {
			if _, err := caller.ExecContext(t.Context(), "CALL check_velocity(1, 'a')"); !session.IsNumber(err, 1467) {
				t.Errorf("a caller by SQL: %v", err)
			}
			enginetest.Exec(t, caller, "ROLLBACK") // as docs/dba.md says
			d.AwaitNone(t, "a caller by SQL")
		}
		wantNothing(t, d)
	})
}

func TestChecksBeyondSmallestPacketAreSplitOrRefused(t *testing.T) {
	t.Parallel()
	const smallest, callsOfAll, rate = 1024, 3, 2
	enginetest.One(t, func(t *testing.T, engine *enginetest.Engine) {
		d := migrated(t, engine.Private(t, t.TempDir()), zone(1, rate, time.Hour))
		enginetest.Exec(t, d.SQL, "SET GLOBAL max_allowed_packet = ?", smallest)
		store := connect(t, d, session.Options{MaxConns: session.LeastMaxConns}) // one session for all
		var checks []service.Check
		for i := range 60 {
			checks = append(checks, check(user(fmt.Sprint("key-", i)))...)
		}
		tooLong := len(checks)
		checks = append(checks, check(user(strings.Repeat("é", 255)), user("x"))[0])
		for call := range callsOfAll {
			decisions := decide(t, store, checks)
			for i, decision := range decisions[:tooLong] {
				if decision.Err != nil || decision.Blocked != (call >= rate) {
					t.Errorf("call %d, check %d: %+v", call, i, decision)
				}
			}
			if err := decisions[tooLong].Err; !errors.Is(err, session.ErrTooLong) || !errors.Is(err, service.ErrBusy) ||
				errors.Is(err, service.ErrUndecided) {
				t.Errorf("call %d, a check that fits no packet: %+v", call, decisions[tooLong])
			}
		}
		d.WantCount(t, callsOfAll*tooLong, "SELECT COUNT(*) FROM zone_txn")
		enginetest.Exec(t, d.SQL, "SET GLOBAL max_allowed_packet = ?", 1<<20)
		if _, err := ask(t.Context(), store, checks[tooLong:]); err != nil {
			t.Errorf("the limit is higher now: %v", err)
		}
		wantSettled(t, d, zone(1, rate, time.Hour))
	})
}
