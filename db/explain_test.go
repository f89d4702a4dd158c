package db

import (
	"database/sql"
	"net/netip"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"velocityd/db/session"
	"velocityd/service"
	"velocityd/service/explain"
	"velocityd/tools/enginetest"
)

// instantOf returns the instant of a txn.
func instantOf(t *testing.T, d *enginetest.Database, id uint64) (at time.Time) {
	t.Helper()
	if err := d.SQL.QueryRow("SELECT created_at FROM zone_txn WHERE id = ?", id).Scan(&at); err != nil {
		t.Fatal(err)
	}
	return at
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

func TestAttemptIsExplainedTrulyAfterEveryChange(t *testing.T) {
	t.Parallel()
	enginetest.Each(t, func(t *testing.T, engine *enginetest.Engine) {
		must := func(err error) {
			t.Helper()
			if err != nil {
				t.Fatal(err)
			}
		}
		users := service.Zone{
			ID: 1, Rate: 2, Window: time.Hour, Counts: service.CountsFailures, Lockout: time.Minute,
			LockoutFactor: 2,
		}
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
		report(t, store, first, service.OutcomeSuccess)
		must(store.Release(ctx, alice, "ann", "called us"))
		var succeeded, released time.Time // the outcome and the release came in this order, after all attempts
		must(d.SQL.QueryRow("SELECT MIN(uncounted_at), MAX(uncounted_at) FROM zone_txn WHERE zone_id = 1").Scan(
			&succeeded, &released))
		if !succeeded.After(instantOf(t, d, locked)) || !released.After(succeeded) {
			t.Errorf("places were given back at %s and %s", succeeded, released)
		}
		deny := service.Override{ZoneID: 2, Prefix: netip.MustParsePrefix("203.0.0.0/8"), Action: service.OverrideDeny}
		_, err := store.Records.AddOverride(ctx, deny, "ann")
		must(err)
		denied := ask(net)
		d.DeleteOverrides(t, 2)
		must(store.Records.DeleteZone(ctx, 1, service.Match{}, "ann"))
		d.SetZone(t, zone(2, 9, time.Minute))

		for _, by := range []*Store{store, service1} {
			x := wantExplained(t, by, locks, "Blocked: 2 of 2 attempts since ")
			if len(x.Counted) != 2 || x.Counted[1].ID != first || !x.Counted[1].UncountedAt.Equal(succeeded) ||
				!x.Counted[0].UncountedAt.Equal(released) || x.Zone.Rate != 2 || x.Lockout == nil ||
				x.Lockout.Until.Sub(x.Lockout.BeganAt.Time) != time.Minute || len(x.Others) != 1 {
				t.Errorf("got %+v, lockout %+v", x, x.Lockout)
			}
			wantExplained(t, by, locked, "Blocked: locked out since ")
			wantExplained(t, by, elsewhere, "Blocked by another bucket of the check: in zone 1 ")
			if x := wantExplained(t, by, denied, "Blocked: override "); x.Override == nil || x.Zone.Rate != 2 ||
				x.Previous.ID != elsewhere {
				t.Errorf("got %+v", x)
			}
		}
		wantBySQL(t, d, locks, "Blocked: 2 of 2 attempts since ", 2)
		wantBySQL(t, d, denied, "Blocked, denied by override ", 1)
	})
}

// explainBySQL calls explain_txn, and returns its sentence, its opens_at and how many rows counted.
func explainBySQL(t *testing.T, d *enginetest.Database, id uint64) (summary string, opens sql.NullTime, n int) {
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
	for i := range values {
		values[i] = new(any)
	}
	values[0], values[slices.Index(columns, "opens_at")] = &summary, &opens
	for found.Next() {
		if err := found.Scan(values...); err != nil {
			t.Fatal(err)
		}
	}
	for found.NextResultSet() {
		for found.Next() {
			n++
		}
	}
	if err := found.Err(); err != nil {
		t.Fatal(err)
	}
	return summary, opens, n
}

// wantBySQL wants how the sentence of explain_txn begins, and how many rows counted.
func wantBySQL(t *testing.T, d *enginetest.Database, id uint64, want string, rows int) {
	t.Helper()
	if summary, _, n := explainBySQL(t, d, id); !strings.HasPrefix(summary, want) || n != rows {
		t.Errorf("explain_txn(%d): %q and %d rows, want %s and %d", id, summary, n, want, rows)
	}
}

// TestExplainTxnHasASentenceForEachReason has a zone for each, whose last attempt is explained.
func TestExplainTxnHasASentenceForEachReason(t *testing.T) {
	t.Parallel()
	enginetest.Each(t, func(t *testing.T, engine *enginetest.Engine) {
		locking, crowded, off := zone(2, 1, time.Hour), zone(3, 9, time.Hour), zone(5, 1, time.Hour)
		locking.Lockout, crowded.Concurrent, off.Mode = time.Hour, 1, service.ModeOff
		d, store := stand(t, engine, session.Options{}, zone(1, 2, time.Hour), locking, crowded, zone(4, 1, time.Hour), off,
			zone(6, 1, 48*time.Hour), zone(7, 1, time.Hour), zone(8, 1, time.Hour))
		d.LeaveUnaudited()
		times := func(n int, buckets ...service.Bucket) (id uint64) {
			for range n {
				id = decided(t, store, buckets...).TxnID()
			}
			return id
		}
		in := func(zone int64) service.Bucket { return service.Bucket{ZoneID: zone, Key: "alice"} }
		const day, instant = `\d{4}-\d\d-\d\d `, `\d\d:\d\d:\d\d\.\d{6} UTC`
		times(1, in(4))
		elsewhere := times(1, in(1), in(4))
		times(1, in(6))
		d.AgeRows(t, in(6), (24 * time.Hour).Microseconds())
		past, unknown := times(2, in(7)), times(1, in(8))
		for _, bucket := range []service.Bucket{in(7), in(8)} {
			d.AgeRows(t, bucket, (3 * time.Hour).Microseconds())
		}
		enginetest.Exec(t, d.SQL, "UPDATE zone_audit SET changed_at = changed_at - INTERVAL 2 DAY WHERE zone_id = 7")
		for _, c := range []struct {
			id   uint64
			want string
		}{
			{times(2, in(2)), "Blocked: 1 of 1 attempts since .* UTC; the next place opens at .*" + instant +
				"; so a lockout began"},
			{times(1, in(2)), "Blocked, locked by a lockout that began before"},
			{times(2, in(3)), "Blocked, because too many attempts were under way"},
			{elsewhere, "Blocked by another bucket of its check"},
			{times(1, in(1)), "Allowed: it was attempt 1 of 2"},
			{times(1, in(5)), "Allowed: it did not count, because the zone was off or an override allowed it"},
			{times(1, in(6)), "Blocked: 1 of 1 attempts since " + day + instant + "; the next place opens at " + day + instant},
			{past, "Blocked: 1 of 1 attempts since " + instant + "; the next place opened at (" + day + ")?" + instant},
			{unknown, "Allowed; the limit of that time is not known, because zone_audit has no zone then"},
		} {
			got, opens, _ := explainBySQL(t, d, c.id)
			if !regexp.MustCompile("^" + c.want + `\.$`).MatchString(got) {
				t.Errorf("explain_txn(%d): %q, want %q", c.id, got, c.want)
			}
			// Only where the bucket was full does SQL know from when on an attempt would have passed.
			x, err := store.Explain(t.Context(), c.id)
			isFull := x.Txn.Reason == service.ReasonFull
			if err != nil || opens.Valid != isFull || isFull && x.Agrees && !opens.Time.Equal(x.OpensAt.Time) {
				t.Errorf("explain_txn(%d), %q: opens_at %+v, and by Go %s, %v", c.id, got, opens, x.OpensAt.Time, err)
			}
		}
		if _, err := d.SQL.Exec("CALL explain_txn(4711)"); !session.IsOneOf(err, []uint16{45404}) {
			t.Errorf("of no txn: %v", err)
		}
	})
}

func TestAnExplanationSaysWhatRetentionTook(t *testing.T) {
	t.Parallel()
	enginetest.Each(t, func(t *testing.T, engine *enginetest.Engine) {
		d, store := stand(t, engine, session.Options{}, zone(1, 2, time.Hour))
		d.LeaveUnaudited()
		decided(t, store, user("alice"))
		decided(t, store, user("alice"))
		id := decided(t, store, user("alice")).TxnID()
		enginetest.Exec(t, d.SQL, "DELETE FROM zone_txn WHERE id = 1")
		x, err := store.Explain(t.Context(), id)
		if err != nil || x.Agrees || len(x.Unknown) != 1 || x.Unknown[0].Part != explain.PartRows || len(x.Counted) != 1 {
			t.Errorf("a row is gone: %+v, %v", x, err)
		}
		enginetest.Exec(t, d.SQL, "UPDATE zone_txn SET created_at = created_at - INTERVAL 60 DAY")
		enginetest.Exec(t, d.SQL, "UPDATE retention_policy SET audit_days = 40")
		x, err = store.Explain(t.Context(), id)
		if err != nil || x.Agrees || x.Zone != nil || len(x.Unknown) == 0 || x.Unknown[0].Part != explain.PartSettings {
			t.Errorf("the audit is gone: %+v, %v", x, err)
		}
		second, err := store.Explain(t.Context(), id-1)
		if err != nil || x.Previous == nil || x.Previous.ID != id-1 || x.Next != nil {
			t.Errorf("beside the last one: %+v and %+v, %v", x.Previous, x.Next, err)
		}
		if second.Previous != nil || second.Next == nil || second.Next.ID != id {
			t.Errorf("beside the one before: %+v and %+v", second.Previous, second.Next)
		}
	})
}
