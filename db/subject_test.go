package db_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"velocityd/db"
	"velocityd/db/retention"
	"velocityd/db/session"
	"velocityd/db/subject"
	"velocityd/internal/engine"
	"velocityd/service"
	"velocityd/tools/enginetest"
)

const (
	logins    = 1 // of clear user names, with totals and lockouts
	addresses = 2
	hidden    = 3 // of pseudonyms
	failures  = 4
)

func zones() []service.Zone {
	names := service.KeyRule{Kind: service.KeyUsername}
	return []service.Zone{
		{ID: logins, Rate: 3, Window: time.Hour, Keys: names, Lockout: 2 * time.Hour, Totals: true},
		{ID: addresses, Rate: 9, Window: time.Hour, Keys: service.KeyRule{Kind: service.KeyIP}},
		{
			ID: hidden, Rate: 9, Window: time.Hour, RepeatSecret: service.RepeatFree,
			Keys: service.KeyRule{Kind: service.KeyUsername, Form: service.KeyHMAC},
		},
		{ID: failures, Rate: 2, Window: time.Hour, Keys: names, Counts: service.CountsFailures, RecordBlocked: 1},
	}
}

// byThree makes all work take several statements.
func byThree() subject.Options { return subject.Options{BatchRows: 3, PageRows: 3} }

// world is a database with the history of two people.
type world struct {
	*db.Store
	*enginetest.Database
	limiter *service.Limiter
	ring    *service.Keyring
}

// each calls test with the database on every engine, and with one of portable tables.
func each(t *testing.T, test func(t *testing.T, w world)) {
	t.Helper()
	enginetest.Each(
		t, func(t *testing.T, e *enginetest.Engine) { test(t, newWorld(t, e.Database(t, zones()...), engine.Auto)) })
	t.Run("portable", func(t *testing.T) {
		t.Parallel()
		d := enginetest.Portable(t, zones()...)
		test(t, newWorld(t, d, engine.TiDB))
	})
}

func newWorld(t *testing.T, d *enginetest.Database, e engine.Engine) world {
	t.Helper()
	store, err := db.Open(session.Options{DSN: d.DSN, Engine: e, ConnectTimeout: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	enginetest.AtEnd(t, func() { _ = store.Close() })
	key, err := service.ParseSecretKey("2026-11", strings.Repeat("ab", 32))
	if err != nil {
		t.Fatal(err)
	}
	ring := new(service.Keyring)
	if err := ring.Replace([]service.SecretKey{key}); err != nil {
		t.Fatal(err)
	}
	limiter := service.NewLimiter(store, service.LimiterOptions{Zones: store.Records, Keys: ring, Timeout: time.Minute})
	rules, err := store.Records.Zones(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	limiter.Learn(rules) // the limiter itself waits a second for them, which a slow machine does not keep
	return world{store, d, limiter, ring}
}

func at(zone int64, key string) service.Bucket { return service.Bucket{ZoneID: zone, Key: key} }

// check asks one check, and returns its decision.
func (w world) check(t *testing.T, attempt string, buckets ...service.Bucket) service.Decision {
	t.Helper()
	decisions, err := w.limiter.CheckAll(
		t.Context(), []service.Check{{Buckets: buckets, AttemptID: attempt, SecretHash: "c0ffee-c0ffee"}})
	if err != nil || decisions[0].Err != nil {
		t.Fatalf("check: %v %v", err, decisions)
	}
	return decisions[0]
}

// live has a person log in, be locked, be excepted, released and exported, and makes one old.
func (w world) live(t *testing.T, name, address string) {
	t.Helper()
	w.check(t, "", at(logins, name))
	enginetest.Exec(t, w.SQL,
		"UPDATE zone_txn SET created_at = created_at - INTERVAL 1 DAY WHERE zone_id = ? AND bucket_key = ?", logins, name)
	w.HasAgedRows()
	for i := range 5 {
		w.check(t, fmt.Sprintf("%s-%d", address[len(address)-1:], i), at(logins, strings.ToUpper(name)),
			at(addresses, address), at(hidden, name))
	}
	for range 4 {
		w.check(t, "", at(failures, name))
	}
	w.except(t, logins, name)
	gone := w.except(t, failures, name)
	if err := w.Records.DeleteOverride(service.WithReason(t.Context(), name+" asked"), failures, gone.ID,
		"ann"); err != nil {
		t.Fatal(err)
	}
	if err := w.Release(t.Context(), at(failures, name), "ann", name+" called us"); err != nil {
		t.Fatal(err)
	}
	w.check(t, "", at(failures, name))
	export := service.Export{Format: "csv", Query: service.HistoryQuery{Zones: []int64{logins}, Keys: []string{"x", name}}}
	if err := w.Records.NoteExport(t.Context(), export, "ann"); err != nil {
		t.Fatal(err)
	}
}

// except makes an override of a person's limit, and changes it.
func (w world) except(t *testing.T, zone int64, name string) service.Override {
	t.Helper()
	ctx := service.WithReason(t.Context(), name+" asked")
	o, err := w.Records.AddOverride(ctx,
		service.Override{ZoneID: zone, Key: name, Action: service.OverrideLimit, Rate: 40, Reason: name + " asked"}, "ann")
	if err == nil {
		o.Rate = 50
		o, err = w.Store.Records.SetOverride(ctx, o, "ann")
	}
	if err != nil {
		t.Fatal(err)
	}
	return o
}

// rollUp counts the attempts in totals.
func (w world) rollUp(t *testing.T) {
	t.Helper()
	if err := w.RetentionRunner().Finish(t.Context(), func(run retention.Run) {
		if run.Err != nil {
			t.Errorf("%s: %v", run.Task, run.Err)
		}
	}); err != nil {
		t.Fatal(err)
	}
}

// targets are the buckets of a key.
func (w world) targets(t *testing.T, key string) []subject.Target {
	t.Helper()
	targets, err := w.Subjects(byThree()).Find(t.Context(), key, nil, w.ring)
	if err != nil {
		t.Fatal(err)
	}
	return targets
}

func (w world) erase(t *testing.T, keys ...string) map[int64]string {
	t.Helper()
	pseudonyms := map[int64]string{}
	for _, key := range keys {
		done, err := w.Subjects(byThree()).Erase(
			t.Context(), subject.Order{Targets: w.targets(t, key), Principal: "ann", Reason: "request 4711"})
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range done {
			pseudonyms[e.ZoneID] = e.Pseudonym
		}
	}
	return pseudonyms
}

// dump returns all rows of all tables as text, a line each.
func (w world) dump(t *testing.T) (lines []string) {
	t.Helper()
	for _, table := range column(t, w.SQL, "SELECT table_name FROM information_schema.tables WHERE table_schema = "+
		"DATABASE() AND table_type = 'BASE TABLE'") {
		columns := column(t, w.SQL, "SELECT CONCAT('CAST(`', column_name, '` AS BINARY)') FROM information_schema.columns "+
			"WHERE table_schema = DATABASE() AND table_name = '"+table+"' ORDER BY ordinal_position")
		for _, line := range column(t, w.SQL, "SELECT CONCAT_WS(' | ', "+strings.Join(columns, ", ")+") FROM "+table) {
			lines = append(lines, table+": "+line)
		}
	}
	return lines
}

func column(t *testing.T, on *sql.DB, query string) (values []string) {
	t.Helper()
	rows, err := enginetest.Texts(on, query)
	if err != nil {
		t.Fatal(err)
	}
	for _, row := range rows {
		values = append(values, row[0])
	}
	return values
}

func TestErasureLeavesNoRowNamingPerson(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, w world) {
		w.live(t, "alice", "203.0.113.7")
		w.live(t, "bobby", "203.0.113.8")
		w.rollUp(t)
		mac, err := w.ring.Pseudonyms(at(hidden, "alice"))
		if err != nil {
			t.Fatal(err)
		}
		names := func(line string) bool {
			return strings.Contains(line, "alice") || strings.Contains(line, mac[0].Key) || strings.Contains(line, "203.0.113.7")
		}
		before := w.dump(t)
		pseudonyms := w.erase(t, "Alice", "203.0.113.7")
		after := w.dump(t)
		for _, line := range after {
			if names(line) && !strings.Contains(line, "idle_buckets") { // where the runner of retention is in its walk
				t.Errorf("left: %s", line)
			}
		}
		isOther := func(line string) bool { return !strings.Contains(line, "bobby") }
		was, is := slices.DeleteFunc(before, isOther), slices.DeleteFunc(after, isOther)
		slices.Sort(was)
		slices.Sort(is)
		if !slices.Equal(was, is) || len(was) == 0 {
			t.Errorf("another person's rows were\n%s\nand are\n%s", strings.Join(was, "\n"), strings.Join(is, "\n"))
		}
		if len(pseudonyms) != len(zones()) || !service.IsPseudonym(pseudonyms[hidden]) {
			t.Errorf("pseudonyms %v", pseudonyms)
		}
		w.WantCount(
			t, 4,
			"SELECT COUNT(*) FROM zone_audit WHERE action = 'erase' AND principal = 'ann' AND state_after LIKE '%request 4711%'")
		if again := w.erase(t, "alice", "203.0.113.7"); len(again) != 0 {
			t.Errorf("a second erasure did something: %v", again)
		}
	})
}

func TestAnErasureMovesNoCountInsideAWindow(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, w world) {
		for range 4 {
			w.check(t, "", at(logins, "alice"))
		}
		w.rollUp(t)
		was, err := w.Peek(t.Context(), at(logins, "alice"))
		if err != nil {
			t.Fatal(err)
		}
		totals := func(key string) service.Totals {
			w.rollUp(t)
			got, err := w.Totals.BucketTotals(t.Context(), at(logins, key), service.TotalsQuery{})
			if err != nil {
				t.Fatal(err)
			}
			return got.All
		}
		counted := totals("alice")
		key := w.erase(t, "alice")[logins]
		is, err := w.Peek(t.Context(), at(logins, key))
		if err != nil || is.Velocity != was.Velocity || !is.LockedUntil.Equal(was.LockedUntil.Time) ||
			is.LockedUntil.IsZero() || len(is.Txns) != 4 {
			t.Errorf("the bucket was %+v and is %+v, %v", was, is, err)
		}
		if got := totals(key); got != counted {
			t.Errorf("totals were %+v and are %+v", counted, got)
		}
		if d := w.check(t, "", at(logins, "alice")); d.Blocked || d.Verdicts[0].Velocity != 1 {
			t.Errorf("the next attempt of the person: %+v", d)
		}
		if got := totals("alice"); got.Attempts != 1 {
			t.Errorf("totals of the person who came back: %+v", got)
		}
	})
}

func TestReportOnErasedAttemptFreesItsPlace(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, w world) {
		attempt := w.check(t, "login-1", at(failures, "alice"), at(addresses, "203.0.113.7"))
		w.check(t, "", at(failures, "alice"))
		key := w.erase(t, "alice")[failures]
		errs, err := w.ReportAll(t.Context(), []service.Report{{AttemptID: "login-1", Outcome: service.OutcomeSuccess}})
		if err != nil || errs[0] != nil {
			t.Fatalf("report by the attempt id: %v %v", err, errs)
		}
		if peek, err := w.Peek(t.Context(), at(failures, key)); err != nil || peek.Velocity != 1 {
			t.Errorf("%d attempts count, want 1 (%v)", peek.Velocity, err)
		}
		if txn, err := w.History.Txn(t.Context(), attempt.TxnID()); err != nil || txn.Outcome != service.OutcomeSuccess ||
			txn.Bucket.Key != key {
			t.Errorf("the txn is %+v, %v", txn, err)
		}
		for _, line := range w.dump(t) {
			if strings.Contains(line, "alice") {
				t.Errorf("left: %s", line)
			}
		}
		retry := service.Check{
			Buckets:   []service.Bucket{at(failures, "alice"), at(addresses, "203.0.113.7")},
			AttemptID: "login-1",
		}
		again, err := w.limiter.CheckAll(t.Context(), []service.Check{retry})
		if err != nil || !errors.Is(again[0].Err, service.ErrConflict) {
			t.Errorf("the attempt id again: %+v, %v; want a conflict", again, err)
		}
	})
}

func TestInterruptedErasureResumesWithItsPseudonym(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, w world) {
		w.live(t, "alice", "203.0.113.7")
		ctx, cancel := context.WithCancel(t.Context())
		first, err := w.Subjects(byThree()).Erase(ctx, subject.Order{
			Targets: w.targets(t, "alice"), Reason: "x", Progress: func(int64) { cancel() },
		})
		if err == nil || len(first) == 0 {
			t.Fatalf("it went on to the end: %+v, %v", first, err)
		}
		w.check(t, "", at(logins, "alice")) // txns of a person that comes back meanwhile are not erased with the others
		rest := w.erase(t, "alice")
		if rest[first[0].ZoneID] != first[0].Pseudonym {
			t.Errorf("pseudonyms %v, want %+v", rest, first[0])
		}
		w.WantCount(t, 0, "SELECT COUNT(*) FROM subject_erasure")
		w.WantCount(t, 1, "SELECT COUNT(*) FROM zone_txn WHERE bucket_key = 'alice'")
	})
}

func TestChecksDuringErasureAreExactBeforeAndAfter(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, w world) {
		const rate = 3
		w.check(t, "", at(logins, "alice"))
		var wait sync.WaitGroup
		var mu sync.Mutex
		allowed, began := 0, make(chan struct{})
		for range 4 {
			wait.Go(func() {
				<-began
				for range 5 {
					if d := w.check(t, "", at(logins, "alice")); !d.Blocked {
						mu.Lock()
						allowed++
						mu.Unlock()
					}
				}
			})
		}
		close(began)
		key := w.erase(t, "alice")[logins]
		wait.Wait()
		before := w.Count(t, "SELECT COUNT(*) FROM zone_txn WHERE bucket_key = ? AND counted = TRUE", key)
		after := w.Count(t, "SELECT COUNT(*) FROM zone_txn WHERE bucket_key = 'alice' AND counted = TRUE")
		if before+after != allowed+1 || before < 1 || before > rate || after > rate {
			t.Errorf("%d txns count before the erasure and %d after it, and %d were allowed", before, after, allowed+1)
		}
	})
}
