package db

import (
	"errors"
	"testing"
	"time"

	"velocityd/db/dbtest"
	"velocityd/db/session"
	"velocityd/service"
)

// TestALackingRightIsForbiddenAndMendedByAGrant takes rights from the service's account
// one by one.
func TestALackingRightIsForbiddenAndMendedByAGrant(t *testing.T) {
	t.Parallel()
	lone, several := check(user("alice")), check(user("alice"), user("bob"))
	retried := []service.Check{{Buckets: []service.Bucket{user("alice")}, AttemptID: "3f6c"}}
	dbtest.Each(t, func(t *testing.T, engine *dbtest.Engine) {
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
				dbtest.Exec(t, d.SQL, "REVOKE "+c.right+" ON "+database+"."+c.on+" FROM "+account)
				store := connect(t, narrow, session.Options{})
				for _, question := range c.questions {
					if _, err := ask(t.Context(), store, question); !errors.Is(err, service.ErrForbidden) {
						t.Errorf("%+v: %v, want forbidden", question, err)
					}
				}
				if n := d.Count(t, "SELECT COUNT(*) FROM zone_txn") + d.Count(t, "SELECT COUNT(*) FROM zone_attempt"); n != 0 {
					t.Errorf("%d rows are recorded of what was refused", n)
				}
				d.AwaitNone(t, "the test")
				dbtest.Exec(t, d.SQL, "GRANT "+c.right+" ON "+database+"."+c.on+" TO "+account)
				for _, question := range c.questions {
					if _, err := ask(t.Context(), store, question); err != nil {
						t.Errorf("%+v, after the grant: %v", question, err)
					}
				}
			})
		}
	})
}

func TestAnAccountThatIsNotLetInIsForbidden(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, engine *dbtest.Engine) {
		d := engine.Database(t, zone(1, 5, time.Hour))
		narrow := d.ServiceAccount(t)
		account, _ := accountOf(t, narrow)
		for _, state := range []string{"IDENTIFIED BY 'another'", "IDENTIFIED BY 'pass' ACCOUNT LOCK"} {
			dbtest.Exec(t, d.SQL, "ALTER USER "+account+" "+state)
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

// TestWhatIsMissingIsToldApart holds against each other what may be on its way and what
// a person must mend.
func TestWhatIsMissingIsToldApart(t *testing.T) {
	t.Parallel()
	lone, several := check(user("alice")), check(user("alice"), user("bob"))
	dbtest.Each(t, func(t *testing.T, engine *dbtest.Engine) {
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
				dbtest.Exec(t, d.SQL, c.gone)
				_, err := ask(t.Context(), store, c.question)
				isService := errors.Is(err, service.ErrUndecided) || errors.Is(err, service.ErrForbidden) || errors.Is(err, service.ErrNotFound)
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
			dbtest.Migrate(t, owner.DSN)
			account, _ := accountOf(t, owner)
			d.SetZone(t, zone(1, 5, time.Hour))
			store := connect(t, d, session.Options{})
			dbtest.Exec(t, d.SQL, "DROP USER "+account)
			if _, err := ask(t.Context(), store, lone); !session.IsNumber(err, 1449) || errors.Is(err, service.ErrBusy) ||
				errors.Is(err, service.ErrUndecided) {
				t.Errorf("%v, want error 1449 as an internal fault", err)
			}
		})
	})
}
