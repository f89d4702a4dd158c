package db

import (
	"net/netip"
	"strings"
	"testing"
	"time"

	"velocityd/db/dbtest"
	"velocityd/db/session"
	"velocityd/service"
	"velocityd/service/explain"
)

// decided asks one check.
func decided(t *testing.T, store *Store, buckets ...service.Bucket) service.Decision {
	t.Helper()
	d, err := ask(t.Context(), store, check(buckets...))
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// wantExplained explains a txn, which must agree, and wants how its sentence begins.
func wantExplained(t *testing.T, store *Store, id uint64, want string) explain.Explanation {
	t.Helper()
	x, err := store.Explain(t.Context(), id)
	if err != nil || !x.Agrees || len(x.Unknown) > 0 || !strings.HasPrefix(x.Summary, want) {
		t.Errorf("txn %d: %v, %s\nwant %s\n%+v", id, err, x.Summary, want, x)
	}
	return x
}

func TestAnAttemptIsExplainedTrulyAfterEverythingHasChanged(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, engine *dbtest.Engine) {
		must := func(err error) {
			t.Helper()
			if err != nil {
				t.Fatal(err)
			}
		}
		users := service.Zone{ID: 1, Rate: 2, Window: time.Hour, Counts: service.CountsFailures, Lockout: time.Minute, LockoutFactor: 2}
		nets := zone(2, 2, time.Hour)
		nets.Keys.Kind = service.KeyIP
		d, store := stand(t, engine, session.Options{}, users, nets)
		service1 := connect(t, d.ServiceAccount(t), session.Options{})
		alice, net := user("alice"), service.Bucket{ZoneID: 2, Key: "203.0.113.9"}
		ask := func(buckets ...service.Bucket) uint64 { return decided(t, store, buckets...).TxnID() }
		ctx := t.Context()

		first := ask(alice, net)
		ask(alice)
		locks := ask(alice, net)
		locked := ask(alice)
		elsewhere := locks + 1
		if errs, err := store.ReportAll(ctx, []service.Report{{TxnID: first, Outcome: service.OutcomeSuccess}}); err != nil || errs[0] != nil {
			t.Fatal(errs, err)
		}
		must(store.Release(ctx, alice, "ann", "called us"))
		_, err := store.AddOverride(ctx, service.Override{ZoneID: 2, Prefix: netip.MustParsePrefix("203.0.0.0/8"), Action: service.OverrideDeny}, "ann")
		must(err)
		denied := ask(net)
		d.DeleteOverrides(t, 2)
		must(store.DeleteZone(ctx, 1, service.Match{}, "ann"))
		d.SetZone(t, zone(2, 9, time.Minute))

		for _, by := range []*Store{store, service1} {
			x := wantExplained(t, by, locks, "Blocked: 2 of 2 attempts since ")
			if len(x.Counted) != 2 || x.Counted[1].ID != first || x.Counted[1].UncountedAt.IsZero() || x.Counted[0].UncountedAt.IsZero() ||
				x.Zone.Rate != 2 || x.Lockout == nil || x.Lockout.Length != time.Minute || len(x.Others) != 1 {
				t.Errorf("got %+v, lockout %+v", x, x.Lockout)
			}
			wantExplained(t, by, locked, "Blocked: locked out since ")
			wantExplained(t, by, elsewhere, "Blocked by another bucket of the check: in zone 1 ")
			if x := wantExplained(t, by, denied, "Blocked: override "); x.Override == nil || x.Zone.Rate != 2 || x.Previous.ID != elsewhere {
				t.Errorf("got %+v", x)
			}
		}
		wantBySQL(t, d, locks, "Blocked: 2 of 2 attempts since ", 2)
		wantBySQL(t, d, denied, "Blocked, denied by override ", 1)
	})
}

// wantBySQL calls explain_txn, and wants how its sentence begins and how many rows counted.
func wantBySQL(t *testing.T, d *dbtest.Database, id uint64, want string, rows int) {
	t.Helper()
	found, err := d.SQL.Query("CALL explain_txn(?)", id)
	if err != nil {
		t.Fatal(err)
	}
	defer found.Close()
	columns, err := found.Columns()
	if err != nil {
		t.Fatal(err)
	}
	values := make([]any, len(columns))
	var summary string
	for i := range values {
		values[i] = new(any)
	}
	values[0] = &summary
	for found.Next() {
		if err := found.Scan(values...); err != nil {
			t.Fatal(err)
		}
	}
	n := 0
	for found.NextResultSet() {
		for found.Next() {
			n++
		}
	}
	if !strings.HasPrefix(summary, want) || n != rows || found.Err() != nil {
		t.Errorf("explain_txn(%d): %q and %d rows, %v, want %s and %d", id, summary, n, found.Err(), want, rows)
	}
}

func TestAnExplanationSaysWhatRetentionTook(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, engine *dbtest.Engine) {
		d, store := stand(t, engine, session.Options{}, zone(1, 2, time.Hour))
		d.LeaveUnaudited()
		decided(t, store, user("alice"))
		decided(t, store, user("alice"))
		id := decided(t, store, user("alice")).TxnID()
		dbtest.Exec(t, d.SQL, "DELETE FROM zone_txn WHERE id = 1")
		x, err := store.Explain(t.Context(), id)
		if err != nil || x.Agrees || len(x.Unknown) != 1 || x.Unknown[0].Part != explain.PartRows || len(x.Counted) != 1 {
			t.Errorf("a row is gone: %+v, %v", x, err)
		}
		dbtest.Exec(t, d.SQL, "UPDATE zone_txn SET created_at = created_at - INTERVAL 60 DAY")
		dbtest.Exec(t, d.SQL, "UPDATE retention_policy SET audit_days = 40")
		x, err = store.Explain(t.Context(), id)
		if err != nil || x.Agrees || x.Zone != nil || len(x.Unknown) == 0 || x.Unknown[0].Part != explain.PartSettings {
			t.Errorf("the audit is gone: %+v, %v", x, err)
		}
	})
}
