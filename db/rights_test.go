package db

import (
	"context"
	"database/sql"
	"errors"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"

	"velocityd/db/session"
	"velocityd/service"
	"velocityd/tools/enginetest"
)

// TestMissingRightIsForbiddenAndMendedByGrant takes rights from the service's account
// one by one.
func TestMissingRightIsForbiddenAndMendedByGrant(t *testing.T) {
	t.Parallel()
	lone, several := check(user("alice")), check(user("alice"), user("bob"))
	retried := []service.Check{{Buckets: []service.Bucket{user("alice")}, AttemptID: "3f6c"}}
	enginetest.Each(t, func(t *testing.T, engine *enginetest.Engine) {
		for name, c := range map[string]struct {
			right, on string // on a table, a procedure or, as *, the database
			questions [][]service.Check
		}{
			"EXECUTE":              {"EXECUTE", "*", [][]service.Check{lone}},
			"SELECT":               {"SELECT", "zone_txn", [][]service.Check{several, retried}},
			"INSERT of txns":       {"INSERT", "zone_txn", [][]service.Check{several, retried}},
			"INSERT of attempts":   {"INSERT", "zone_attempt", [][]service.Check{retried}},
			"INSERT of buckets":    {"INSERT", "zone_bucket_lock", [][]service.Check{several, retried}},
			"UPDATE of the bucket": {"UPDATE", "zone_bucket_lock", [][]service.Check{several, retried}},
		} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				d := engine.Database(t, zone(1, 5, time.Hour))
				narrow := d.ServiceAccount(t)
				account, database := accountOf(t, narrow)
				enginetest.Exec(t, d.SQL, "REVOKE "+c.right+" ON "+database+"."+c.on+" FROM "+account)
				store := connect(t, narrow, session.Options{})
				for _, question := range c.questions {
					if _, err := ask(t.Context(), store, question); !errors.Is(err, service.ErrForbidden) {
						t.Errorf("%+v: %v, want forbidden", question, err)
					}
				}
				if n := d.Count(t, "SELECT COUNT(*) FROM zone_txn") + d.Count(t, "SELECT COUNT(*) FROM zone_attempt"); n != 0 {
					t.Errorf("%d rows are recorded of refused attempts", n)
				}
				d.AwaitNone(t, "the test")
				enginetest.Exec(t, d.SQL, "GRANT "+c.right+" ON "+database+"."+c.on+" TO "+account)
				for _, question := range c.questions {
					if _, err := ask(t.Context(), store, question); err != nil {
						t.Errorf("%+v, after the grant: %v", question, err)
					}
				}
			})
		}
	})
}

func TestRejectedAccountIsForbidden(t *testing.T) {
	t.Parallel()
	enginetest.Each(t, func(t *testing.T, engine *enginetest.Engine) {
		d := engine.Database(t, zone(1, 5, time.Hour))
		narrow := d.ServiceAccount(t)
		account, _ := accountOf(t, narrow)
		for _, state := range []string{"IDENTIFIED BY 'another'", "IDENTIFIED BY 'pass' ACCOUNT LOCK"} {
			enginetest.Exec(t, d.SQL, "ALTER USER "+account+" "+state)
			store := connect(t, narrow, session.Options{})
			for _, question := range [][]service.Check{check(user("alice")), check(user("alice"), user("bob"))} {
				if _, err := ask(t.Context(), store, question); !errors.Is(err, service.ErrForbidden) {
					t.Errorf("%s: %v, want forbidden", state, err)
				}
			}
			if _, err := store.Records.Zones(t.Context()); !errors.Is(err, service.ErrForbidden) {
				t.Errorf("%s, look-up: %v, want forbidden", state, err)
			}
		}
	})
}

// TestWhatIsMissingIsToldApart holds against each other objects that may be on their way and those that
// a person must mend.
func TestWhatIsMissingIsToldApart(t *testing.T) {
	t.Parallel()
	lone, several := check(user("alice")), check(user("alice"), user("bob"))
	enginetest.Each(t, func(t *testing.T, engine *enginetest.Engine) {
		for name, c := range map[string]struct {
			gone     string
			question []service.Check
			busy     bool // or else an internal fault
			number   uint16
		}{
			"procedure of a lone check": {"DROP PROCEDURE check_velocity_by_rule", lone, true, session.NumberNoSuchProcedure},
			"procedure inside":          {"DROP PROCEDURE make_bucket", lone, true, session.NumberNoSuchProcedure},
			"table of a lone check":     {"DROP TABLE zone_txn", lone, false, session.NumberNoSuchTable},
			"table of a batch":          {"DROP TABLE zone_txn", several, false, session.NumberNoSuchTable},
		} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				d, store := stand(t, engine, session.Options{}, zone(1, 5, time.Hour))
				d.LeaveUnaudited()
				enginetest.Exec(t, d.SQL, c.gone)
				_, err := ask(t.Context(), store, c.question)
				isService := errors.Is(err, service.ErrUndecided) || errors.Is(err, service.ErrForbidden) ||
					errors.Is(err, service.ErrNotFound)
				if errors.Is(err, service.ErrBusy) != c.busy || isService || !session.IsNumber(err, c.number) {
					t.Errorf("%v, want busy: %t, and error %d in it", err, c.busy, c.number)
				}
				d.AwaitNone(t, "the test")
			})
		}
		t.Run("owner", func(t *testing.T) {
			t.Parallel()
			d := engine.Empty(t)
			owner := d.Account(t, "ALL ON *")
			enginetest.Migrate(t, owner.DSN)
			account, _ := accountOf(t, owner)
			d.SetZone(t, zone(1, 5, time.Hour))
			store := connect(t, d, session.Options{})
			enginetest.Exec(t, d.SQL, "DROP USER "+account)
			if _, err := ask(t.Context(), store, lone); !session.IsNumber(err, 1449) || errors.Is(err, service.ErrBusy) ||
				errors.Is(err, service.ErrUndecided) {
				t.Errorf("%v, want error 1449 as an internal fault", err)
			}
		})
	})
}

// wantRefused runs statements that an account has no right to.
func wantRefused(t *testing.T, conn interface {
	ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
}, statements ...string,
) {
	t.Helper()
	for _, statement := range statements {
		_, err := conn.ExecContext(t.Context(), statement)
		var refused *mysql.MySQLError
		if !errors.As(err, &refused) || refused.Number != 1142 && refused.Number != 1143 && refused.Number != 1370 {
			t.Errorf("%s: %v, want it refused for want of a right", statement, err)
		}
	}
}

func TestTheServicesAccountDecidesAndCannotChangeHistory(t *testing.T) {
	t.Parallel()
	enginetest.Each(t, func(t *testing.T, engine *enginetest.Engine) {
		d := engine.Database(t)
		limited := zone(1, 2, time.Hour)
		limited.Lockout = time.Minute
		d.SetZone(t, limited)
		store := connect(t, d.ServiceAccount(t), session.Options{})
		question := []service.Check{
			{Buckets: []service.Bucket{user("a"), user("b")}, AttemptID: "first"},
			{Buckets: []service.Bucket{user("a")}},
			{Buckets: []service.Bucket{user("a")}},
		}
		for range 2 { // the second time with a lockout and a retry
			decisions, err := store.CheckAll(t.Context(), service.Call{Checks: question})
			if err != nil || decisions[0].Blocked || !decisions[2].Blocked {
				t.Fatalf("got %+v, %v", decisions, err)
			}
		}
		enginetest.Exec(t, d.SQL, "UPDATE zone_attempt SET expires_at = '2000-01-01'")
		if decisions, err := store.CheckAll(t.Context(), service.Call{Checks: question[:1]}); err != nil ||
			!decisions[0].Blocked {
			t.Errorf("after the attempt was forgotten: %+v, %v", decisions, err)
		}
		report(t, store, 1, service.OutcomeFailure)
		wantRefused(t, store.lookUps.Conns, "UPDATE zone_txn SET blocked = 0", "DELETE FROM zone_txn",
			"DELETE FROM zone_attempt",
			"UPDATE zone_attempt SET answer = '[]'", "DELETE FROM zone_bucket_lock",
			"INSERT INTO zone_master (id, rate, `window`) VALUES (9, 1, 1)",
			"UPDATE zone_master SET rate = 9", "DELETE FROM zone_audit")
	})
}

func TestAccountWithNothingButExecuteCanCheck(t *testing.T) {
	t.Parallel()
	enginetest.Each(t, func(t *testing.T, engine *enginetest.Engine) {
		d := engine.Database(t, zone(1, 2, time.Hour))
		store := connect(t, d.Account(t, "EXECUTE ON *"), session.Options{})
		decisions, err := sqlStore{conns: store.lookUps.Conns.DB}.CheckAll(
			t.Context(), service.Call{Checks: check(user("a"), user("b"))})
		if err != nil || decisions[0].Blocked {
			t.Errorf("got %+v, %v", decisions, err)
		}
		if _, err := store.Records.Zones(t.Context()); err == nil {
			t.Error("the account may read tables that it was not granted")
		}
		conn, err := store.lookUps.Conns.Conn(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		enginetest.Exec(
			t, conn, "SET @rate = 5, @window = 60, @period = 'none', @anchor = 1, @velocity = NULL, @oldest = NULL")
		// Procedures that work under locks which their caller holds.
		wantRefused(t, conn,
			"CALL find_override(1, 'a', FALSE, UTC_TIMESTAMP(6), @a, @b, @c, @d, @e, @f)",
			"CALL judge_bucket(1, 'a', UTC_TIMESTAMP(6), TRUE, 'enforce', 0, 0, 'opaque', FALSE, 0, @rate, @window, @period, "+
				"@anchor, @velocity, @oldest, @since, @until, @wait, @counts, @locked, @id, @action, @reason)",
			"CALL make_bucket(1, 'c', NULL, TRUE)",
			"CALL forget_tally(1, 'a', UTC_TIMESTAMP(6))",
			`CALL decide_check('[{"zone_id":1,"bucket_key":"a"}]', NULL, @a, @b)`,
			"CALL record_attempt(1, 'a', UTC_TIMESTAMP(6), UTC_TIMESTAMP(6), TRUE, TRUE, FALSE, 'full', NULL, NULL, NULL, "+
				"NULL, NULL, @a)",
			"CALL txns_of_check(1, @a, @b, @c, @d)",
			"CALL record_outcome(UTC_TIMESTAMP(6), NULL, 1, 1, 'success', UTC_TIMESTAMP(6), @a)",
			"CALL uncount_bucket(1, 'a', UTC_TIMESTAMP(6))",
			`CALL record_outcomes('[{"txn_id":1,"outcome":"success"}]', @a)`,
			`CALL lock_buckets('[{"zone_id":1,"bucket_key":"a"}]')`)
	})
}
