package db

import (
	"errors"
	"strings"
	"testing"
	"time"

	"velocityd/db/dbtest"
	"velocityd/db/records"
	"velocityd/db/session"
	"velocityd/service"
)

// TestAnAnswerToAnotherQuestionIsGivenToNobody repeats an answer of the engine when the next question
// is on its way on the same connection.
func TestAnAnswerToAnotherQuestionIsGivenToNobody(t *testing.T) { //nolint:funlen // one table of questions
	t.Parallel()
	const lone, first, second = "check_velocity_by_rule", "START TRANSACTION", "INSERT INTO zone_txn"
	// ids are of a txn of alice, of one of bob, and of one of a check of both.
	type question = func(t *testing.T, store *Store, ids []uint64) error
	checked := func(buckets ...service.Bucket) question {
		return func(t *testing.T, store *Store, _ []uint64) error {
			d, err := ask(t.Context(), store, check(buckets...))
			if err == nil && (len(d.Verdicts) != len(buckets) || d.Verdicts[0].Bucket != buckets[0] || d.TxnID() == 0) {
				t.Errorf("%v got %+v", buckets, d)
			}
			return err
		}
	}
	peeked := func(key string) question {
		return func(t *testing.T, store *Store, _ []uint64) error {
			peek, err := store.Peek(t.Context(), user(key))
			for _, txn := range peek.Txns {
				if txn.Bucket != user(key) {
					t.Errorf("the peek at %s shows a txn of %s", key, txn.Bucket.Key)
				}
			}
			return err
		}
	}
	read := func(i int) question {
		return func(t *testing.T, store *Store, ids []uint64) error {
			txn, err := store.Txn(t.Context(), ids[i])
			if err == nil && txn.ID != ids[i] {
				t.Errorf("txn %d is %+v", ids[i], txn)
			}
			return err
		}
	}
	recalled := func(id string) question {
		return func(t *testing.T, store *Store, _ []uint64) error {
			found, err := store.Attempt(t.Context(), id)
			if err == nil && (len(found.Txns) != 1 || found.Txns[0].AttemptID != id) {
				t.Errorf("attempt %s is %+v", id, found)
			}
			return err
		}
	}
	zonedBy := func(id string) question {
		return func(t *testing.T, store *Store, _ []uint64) error {
			zones, err := store.AttemptZones(t.Context(), []string{id})
			if err == nil && len(zones[id]) != 1 {
				t.Errorf("the zones of attempt %s are %v", id, zones)
			}
			return err
		}
	}
	reportedBy := func(id string) question {
		return func(t *testing.T, store *Store, _ []uint64) error {
			_, err := store.ReportAll(t.Context(), []service.Report{{AttemptID: id, Outcome: service.OutcomeFailure}})
			return err
		}
	}
	zoned := func(list ...int) question {
		return func(t *testing.T, store *Store, ids []uint64) error {
			var asked []uint64
			for _, i := range list {
				asked = append(asked, ids[i])
			}
			zones, err := store.TxnZones(t.Context(), asked)
			for _, i := range list {
				if err == nil && len(zones[ids[i]]) != 1+i/2 {
					t.Errorf("the zones of txn %d are %v", ids[i], zones)
				}
			}
			return err
		}
	}
	reported := func(n int) question {
		return func(t *testing.T, store *Store, ids []uint64) error {
			reports := []service.Report{{TxnID: ids[0], Outcome: service.OutcomeFailure}, {TxnID: ids[1], Outcome: service.OutcomeFailure}}
			_, err := store.ReportAll(t.Context(), reports[:n])
			return err
		}
	}
	reportedAs := func(i int, outcome service.Outcome) question {
		return func(t *testing.T, store *Store, ids []uint64) error {
			_, err := store.ReportAll(t.Context(), []service.Report{{TxnID: ids[i], Outcome: outcome}})
			return err
		}
	}
	changesSince := func(change uint64) question {
		return func(t *testing.T, store *Store, _ []uint64) error {
			_, list, err := store.EditsSince(t.Context(), change)
			if err == nil && (len(list) == 0 || list[0].ID != change) {
				t.Errorf("the changes since %d are %+v", change, list)
			}
			return err
		}
	}
	renewed := func(t *testing.T, store *Store, _ []uint64) error {
		list, err := store.RenewZones(t.Context(), records.ZoneList{})
		if err == nil && len(list.Zones) != 2 {
			t.Errorf("the zones are %+v", list.Zones)
		}
		return err
	}
	listed := func(zoneID int64) question {
		return func(t *testing.T, store *Store, _ []uint64) error {
			list, err := store.Overrides(t.Context(), zoneID, 0, 10)
			if err == nil && (len(list) != 1 || list[0].ZoneID != zoneID) {
				t.Errorf("the overrides of zone %d are %+v", zoneID, list)
			}
			return err
		}
	}
	const oldest = "BETWEEN '1970-01-01" // of the last statement of a peek
	released := func(t *testing.T, store *Store, _ []uint64) error {
		return store.Release(t.Context(), user("bob"), "test", "test")
	}
	zone2 := func(t *testing.T, store *Store, _ []uint64) error {
		z, err := store.Zone(t.Context(), 2)
		if err == nil && z.ID != 2 {
			t.Errorf("zone 2 is %+v", z)
		}
		return err
	}
	zone1 := func(t *testing.T, store *Store, _ []uint64) error {
		_, err := store.Zone(t.Context(), 1)
		return err
	}
	dbtest.One(t, func(t *testing.T, engine *dbtest.Engine) {
		for name, c := range map[string]struct {
			text          string
			before, after question
			kind          error // nil: it may be asked again, and then the answer is right
		}{
			"a lone check":                   {lone, checked(user("alice")), checked(user("bob")), service.ErrUndecided},
			"a lone check of the same":       {lone, checked(user("alice")), checked(user("alice")), service.ErrUndecided},
			"a lone check, then a batch":     {lone, checked(user("alice")), checked(user("alice"), user("bob")), service.ErrBusy},
			"a batch within itself":          {first, nil, checked(user("alice"), user("bob")), service.ErrUndecided},
			"a batch":                        {second, checked(user("alice"), user("bob")), checked(user("carol"), user("dave")), service.ErrBusy},
			"a batch, then the same":         {second, checked(user("alice"), user("bob")), checked(user("alice"), user("bob")), service.ErrBusy},
			"a batch, then a lone check":     {second, checked(user("alice"), user("bob")), checked(user("bob")), service.ErrUndecided},
			"a peek within itself":           {"peek_velocity", nil, peeked("alice"), service.ErrBusy},
			"a release":                      {"release_bucket", released, peeked("alice"), service.ErrBusy},
			"a list of txns":                 {oldest, peeked("alice"), peeked("bob"), service.ErrBusy},
			"a list of txns, then a release": {oldest, peeked("alice"), released, service.ErrUndecided},
			"a txn":                          {"FROM zone_txn", read(0), read(1), service.ErrBusy},
			"the zones of a txn":             {"check_buckets", zoned(0), zoned(1), service.ErrBusy},
			"a txn, then its zones":          {"FROM zone_txn", read(0), zoned(0), nil},
			"an attempt":                     {"FROM zone_attempt", zonedBy("id of alice"), recalled("id of bob"), service.ErrBusy},
			"an attempt within itself":       {"FROM zone_attempt", nil, recalled("id of alice"), service.ErrBusy},
			"an attempt, then a report":      {"FROM zone_attempt", zonedBy("id of alice"), reportedBy("id of bob"), service.ErrBusy},
			"a report within itself":         {"FROM zone_attempt", nil, reportedBy("id of alice"), service.ErrUndecided},
			"a report":                       {"report_outcomes", reported(1), reported(2), service.ErrUndecided},
			"a txn, then a report":           {"FROM zone_txn", read(0), reported(1), service.ErrUndecided},
			"a report of another txn": {
				"report_outcomes", reportedAs(0, service.OutcomeFailure), reportedAs(1, service.OutcomeFailure),
				service.ErrUndecided,
			},
			"a report of another outcome": {
				"report_outcomes", reportedAs(0, service.OutcomeFailure), reportedAs(0, service.OutcomeSuccess),
				service.ErrUndecided,
			},
			"a zone":                         {"FROM zone_master", zone1, zone2, service.ErrBusy},
			"the zones of a txn and a check": {"check_buckets", nil, zoned(0, 2), service.ErrBusy},
			"the changes of a zone":          {"zone_audit", changesSince(1), changesSince(2), service.ErrBusy},
			"a look at all changes":          {"zone_audit", nil, renewed, service.ErrBusy},
			"a list of overrides":            {"zone_id = 1", listed(1), listed(2), service.ErrBusy},
		} {
			t.Run(name, func(t *testing.T) {
				d := engine.Database(t, zone(1, 50, time.Hour), zone(2, 50, time.Hour))
				direct := connect(t, d, session.Options{})
				var ids []uint64
				for _, key := range []string{"alice", "bob"} {
					decision, err := ask(t.Context(), direct, check(user(key)))
					if err != nil {
						t.Fatal(err)
					}
					ids = append(ids, decision.TxnID())
				}
				for _, key := range []string{"alice", "bob"} {
					if _, err := ask(t.Context(), direct, attempt("id of "+key, user(key))); err != nil {
						t.Fatal(err)
					}
				}
				both, err := ask(t.Context(), direct, check(user("alice"), user("bob")))
				if err != nil {
					t.Fatal(err)
				}
				ids = append(ids, both.TxnID())
				for id := range int64(2) {
					d.SetOverride(t, service.Override{ZoneID: id + 1, Key: "carol", Action: service.OverrideAllow, Reason: "test", CreatedBy: "test"})
				}
				p := dbtest.Through(t, d.DSN)
				store := connect(t, &dbtest.Database{DSN: p.DSN}, session.Options{MaxConns: session.LeastMaxConns})
				if _, err := ask(t.Context(), store, check(user("alice"), user("bob"))); err != nil { // it knows zone and rows then
					t.Fatal(err)
				}
				if _, err := store.Txn(t.Context(), ids[0]); err != nil { // and marks
					t.Fatal(err)
				}
				p.Repeat(c.text)
				if c.before != nil {
					if err := c.before(t, store, ids); err != nil {
						t.Fatal(err)
					}
				}
				err = c.after(t, store, ids)
				if c.kind != nil && !errors.Is(err, c.kind) {
					t.Errorf("got %v, want %v", err, c.kind)
				}
				if err != nil && (strings.Contains(err.Error(), "alice") || strings.Contains(err.Error(), "bob")) {
					t.Errorf("the error repeats a key: %v", err)
				}
				for range 2 {
					if err := c.after(t, store, ids); err != nil {
						t.Errorf("afterwards: %v", err)
					}
				}
				d.AwaitNone(t, "the test")
			})
		}
	})
}
