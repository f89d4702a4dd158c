package db

import (
	"context"
	"database/sql"
	"errors"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"

	"velocityd/db/dbtest"
	"velocityd/db/session"
	"velocityd/service"
)

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
	dbtest.Each(t, func(t *testing.T, engine *dbtest.Engine) {
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
		dbtest.Exec(t, d.SQL, "UPDATE zone_attempt SET expires_at = '2000-01-01'")
		if decisions, err := store.CheckAll(t.Context(), service.Call{Checks: question[:1]}); err != nil || !decisions[0].Blocked {
			t.Errorf("after the attempt was forgotten: %+v, %v", decisions, err)
		}
		report(t, store, 1, service.OutcomeFailure)
		wantRefused(t, store.lookUps.Conns, "UPDATE zone_txn SET blocked = 0", "DELETE FROM zone_txn", "DELETE FROM zone_attempt",
			"UPDATE zone_attempt SET answer = '[]'", "DELETE FROM zone_bucket_lock", "INSERT INTO zone_master (id, rate, `window`) VALUES (9, 1, 1)",
			"UPDATE zone_master SET rate = 9", "DELETE FROM zone_audit")
	})
}

func TestAccountWithNothingButExecuteCanCheck(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, engine *dbtest.Engine) {
		d := engine.Database(t, zone(1, 2, time.Hour))
		store := connect(t, d.Account(t, "EXECUTE ON *"), session.Options{})
		decisions, err := sqlStore{conns: store.lookUps.Conns.DB}.CheckAll(t.Context(), service.Call{Checks: check(user("a"), user("b"))})
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
		dbtest.Exec(t, conn, "SET @rate = 5, @window = 60, @period = 'none', @anchor = 1, @velocity = NULL, @oldest = NULL")
		// What works under locks that its caller holds.
		wantRefused(t, conn,
			"CALL find_override(1, 'a', FALSE, UTC_TIMESTAMP(6), @a, @b, @c, @d, @e, @f)",
			"CALL judge_bucket(1, 'a', UTC_TIMESTAMP(6), TRUE, 'enforce', 0, 0, 'opaque', FALSE, 0, "+
				"@rate, @window, @period, @anchor, @velocity, @oldest, @since, @until, @wait, @counts, @locked, @id, @action, @reason)",
			"CALL make_bucket(1, 'c', NULL, TRUE)",
			"CALL forget_tally(1, 'a', UTC_TIMESTAMP(6))",
			`CALL decide_check('[{"zone_id":1,"bucket_key":"a"}]', NULL, @a, @b)`,
			"CALL record_attempt(1, 'a', UTC_TIMESTAMP(6), UTC_TIMESTAMP(6), TRUE, TRUE, FALSE, 'full', NULL, NULL, NULL, NULL, NULL, @a)",
			"CALL txns_of_check(1, @a, @b, @c, @d)",
			"CALL record_outcome(UTC_TIMESTAMP(6), NULL, 1, 1, 'success', UTC_TIMESTAMP(6), @a)",
			"CALL uncount_bucket(1, 'a', UTC_TIMESTAMP(6))",
			`CALL record_outcomes('[{"txn_id":1,"outcome":"success"}]', @a)`,
			`CALL lock_buckets('[{"zone_id":1,"bucket_key":"a"}]')`)
	})
}
