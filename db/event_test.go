package db

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"velocityd/api"
	"velocityd/db/session"
	"velocityd/service"
	"velocityd/service/event"
	"velocityd/service/lockout"
	"velocityd/tools/enginetest"
)

// ends has the runner of a store take a turn, and returns how many ends of lockouts it noted.
func ends(t *testing.T, s *Store) (n int64) {
	t.Helper()
	runs, err := s.EventRunner().Turn(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, run := range runs {
		if run.Err != nil {
			t.Errorf("%s: %v", run.Task, run.Err)
		}
		n += run.Removed
	}
	return n
}

// typesOf returns the types of a bucket's events, by their ids.
func typesOf(t *testing.T, d *enginetest.Database, bucket service.Bucket) (types []event.Type) {
	t.Helper()
	for _, e := range eventsOf(t, d, bucket) {
		types = append(types, e.Type)
	}
	return types
}

func TestLockoutEndByTimeIsToldOnce(t *testing.T) {
	t.Parallel()
	eachForm(t, func(t *testing.T, f form) {
		d, store := f.stand(t, session.Options{}, service.Zone{ID: 1, Rate: 0, Window: time.Minute, Lockout: time.Hour})
		other := f.connect(t, d, session.Options{})
		buckets := []service.Bucket{user("alice"), user("bob"), user("carol")}
		for _, bucket := range buckets {
			decide(t, store, slices.Repeat(check(bucket), 2))
		}
		if n := ends(t, store); n != 0 {
			t.Errorf("%d lockouts ended at once", n)
		}
		d.AgeRows(t, buckets[0], (2 * time.Hour).Microseconds())
		d.AgeRows(t, buckets[1], (2 * time.Hour).Microseconds())
		release(t, store, buckets[1])
		release(t, store, buckets[2])
		var ended atomic.Int64
		done := make(chan struct{})
		for _, s := range []*Store{store, other} {
			go func() { ended.Add(ends(t, s)); done <- struct{}{} }()
		}
		<-done
		<-done
		if ended.Load() != 2 || ends(t, store) != 0 {
			t.Errorf("%d lockouts ended, want 2 once", ended.Load())
		}
		for i, want := range [][]event.Type{
			{event.BucketLocked, event.BucketLockEnded},
			{event.BucketLocked, event.BucketReleased, event.BucketLockEnded}, // the release was too late to end it
			{event.BucketLocked, event.BucketLockEnded, event.BucketReleased},
		} {
			got := typesOf(t, d, buckets[i])
			slices.Sort(got)
			slices.Sort(want)
			if !slices.Equal(got, want) {
				t.Errorf("%s: %v, want %v", buckets[i].Key, got, want)
			}
		}
		d.WantCount(t, 0, "SELECT COUNT(*) FROM zone_lockout")
		var data struct {
			EndedAt  time.Time `json:"ended_at"`
			LockedAt time.Time `json:"locked_at"`
			Cause    string
		}
		last := eventsOf(t, d, buckets[0])[1]
		if err := json.Unmarshal(last.Data, &data); err != nil || data.Cause != "time" ||
			data.EndedAt.Sub(data.LockedAt) != time.Hour || last.TxnID == 0 {
			t.Errorf("the end says txn %d, %s, %v", last.TxnID, last.Data, err)
		}
		for _, e := range eventsOf(t, d, buckets[2]) {
			if e.Type != event.BucketLockEnded {
				continue
			}
			if err := json.Unmarshal(e.Data, &data); err != nil || data.Cause != "release" || !data.EndedAt.Equal(e.At.Time) {
				t.Errorf("the end by a release is told at %s: %s, %v", e.At.Time, e.Data, err)
			}
		}
	})
}

// editedData is the data of the event of an edit.
type editedData struct {
	By            string
	Account       string
	Before, After map[string]any
}

func TestEachEditIsEventWithPrincipalAndStates(t *testing.T) {
	t.Parallel()
	eachForm(t, func(t *testing.T, f form) {
		d, store := f.stand(t, session.Options{})
		ctx := t.Context()
		must := func(err error) {
			t.Helper()
			if err != nil {
				t.Fatal(err)
			}
		}
		for rate := range 2 {
			_, err := store.Records.PutZone(ctx, zone(7, 5+rate, time.Minute), service.Match{}, "ann")
			must(err)
		}
		exact, err := store.Records.AddOverride(ctx, service.Override{ZoneID: 7, Key: "null", Action: service.OverrideDeny},
			"ann")
		must(err)
		if f.engine != nil { // by SQL: neither the service nor the portable tables have such an edit
			enginetest.Exec(t, d.SQL, "UPDATE zone_override SET reason = 'guessing' WHERE id = ?", exact.ID)
		}
		must(store.Records.DeleteOverride(ctx, 7, exact.ID, "ann"))
		must(store.Records.DeleteZone(ctx, 7, service.Match{}, "ann"))
		made := add(t, store, callerOf("door"))
		must(store.Records.UseCredential(ctx, made.ID))
		if f.engine != nil {
			enginetest.Exec(t, d.SQL, "UPDATE access_token SET expires_at = '2099-01-01' WHERE id = ?", made.ID)
		}
		_, err = store.Records.RevokeCredential(ctx, made.ID, "ann")
		must(err)

		got, want := typesOf(t, d, service.Bucket{ZoneID: 7}),
			[]event.Type{event.ZoneCreated, event.ZoneUpdated, event.ZoneDeleted}
		if !slices.Equal(got, want) {
			t.Errorf("of the zone: %v, want %v", got, want)
		}
		overrides, tokens := []event.Type{event.OverrideCreated, event.OverrideDeleted},
			[]event.Type{event.TokenCreated, event.TokenRevoked}
		if f.engine != nil {
			overrides, tokens = slices.Insert(overrides, 1, event.OverrideUpdated), slices.Insert(tokens, 1, event.TokenUpdated)
		}
		if got := typesOf(t, d, (service.Bucket{ZoneID: 7, Key: "null"})); !slices.Equal(got, overrides) {
			t.Errorf("of the override: %v, want %v", got, overrides)
		}
		if got := typesOf(t, d, (service.Bucket{})); !slices.Equal(got, tokens) {
			t.Errorf("of the token: %v, want %v", got, tokens)
		}
		override := service.Bucket{ZoneID: 7, Key: "null"}
		ofZone, ofOverride, ofToken := eventsOf(t, d, (service.Bucket{ZoneID: 7})), eventsOf(t, d, override),
			eventsOf(t, d, (service.Bucket{}))
		for _, e := range slices.Concat(ofZone, ofOverride, ofToken) {
			var data editedData
			isNew, isGone := strings.HasSuffix(string(e.Type), ".created"), strings.HasSuffix(string(e.Type), ".deleted")
			err := json.Unmarshal(e.Data, &data)
			if err != nil || data.Account == "" || (data.Before == nil) != isNew || (data.After == nil) != isGone {
				t.Errorf("%s: %s, %v", e.Type, e.Data, err)
			}
			who := map[event.Type]string{event.TokenCreated: "dba@host", event.TokenUpdated: "", event.OverrideUpdated: ""}
			if by, isOther := who[e.Type]; data.By != by && (isOther || data.By != "ann") {
				t.Errorf("%s is by %q", e.Type, data.By)
			}
			if _, isThere := data.After["digest"]; isThere {
				t.Errorf("%s has the digest", e.Type)
			}
		}
		d.WantCount(t, len(tokens), "SELECT COUNT(*) FROM zone_audit WHERE subject = 'token'")
	})
}

// EventsOf implements servicetest.Subject.
func (b bench) EventsOf(tb testing.TB, bucket service.Bucket) []event.Event {
	tb.Helper()
	return eventsOf(tb, b.Database, bucket)
}

// eventsOf returns every event of a bucket by id. It compares each, as people get it, with events.schema.json.
func eventsOf(tb testing.TB, d *enginetest.Database, bucket service.Bucket) []event.Event {
	tb.Helper()
	schema := eventSchema(tb)
	events := d.EventsOf(tb, bucket)
	for _, e := range events {
		text, err := json.Marshal(e)
		if err != nil {
			tb.Fatal(err)
		}
		shown, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
		if err != nil {
			tb.Fatal(err)
		}
		if err := schema.Validate(shown); err != nil {
			tb.Errorf("%s: %v", text, err)
		}
	}
	return events
}

func eventSchema(tb testing.TB) *jsonschema.Schema {
	tb.Helper()
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(api.EventSchema))
	if err != nil {
		tb.Fatal(err)
	}
	compiler := jsonschema.NewCompiler()
	compiler.AssertFormat()
	if err := compiler.AddResource("events.schema.json", doc); err != nil {
		tb.Fatal(err)
	}
	schema, err := compiler.Compile("events.schema.json")
	if err != nil {
		tb.Fatal(err)
	}
	return schema
}

func TestListHasLockoutsOnceAndMatchesCensus(t *testing.T) {
	t.Parallel()
	enginetest.Each(t, func(t *testing.T, e *enginetest.Engine) {
		const buckets = 7
		d, store := stand(t, e, session.Options{}, service.Zone{ID: 1, Rate: 1, Window: time.Hour, Lockout: time.Hour},
			service.Zone{ID: 2, Rate: 1, Window: time.Hour, Lockout: time.Hour, Mode: service.ModeShadow})
		for i := range buckets {
			for _, zone := range []int64{1, 2} {
				for range 2 {
					decided(t, store, service.Bucket{ZoneID: zone, Key: fmt.Sprint("key ", i)})
				}
			}
		}
		agree := func(when string, want int) {
			t.Helper()
			census, err := store.Records.Census(t.Context())
			all, failed := lockout.All(t.Context(), store.Records, 1, buckets)
			if err != nil || failed != nil || census[0].Locked != want || len(all) != want || census[1].Locked != 0 {
				t.Errorf("%s: census %+v, %v, and the list has %d, %v; want %d", when, census, err, len(all), failed, want)
			}
		}
		agree("at first", buckets)
		seen := map[string]bool{}
		for q := (lockout.Query{ZoneID: 1, Limit: 3}); ; {
			page, err := store.Records.Locked(t.Context(), q)
			if err != nil || len(page.Lockouts) > q.Limit {
				t.Fatalf("%+v, %v", page, err)
			}
			for _, l := range page.Lockouts {
				if seen[l.Key] || l.Until.Sub(l.Since.Time) != time.Hour || l.Reason != service.ReasonLockout || q.Cursor != 0 &&
					l.TxnID >= q.Cursor {
					t.Errorf("lockout %+v behind %d", l, q.Cursor)
				}
				seen[l.Key] = true
			}
			if q.Cursor = page.Next; page.Next == 0 {
				break
			}
		}
		if len(seen) != buckets {
			t.Errorf("the list has %d lockouts, want %d", len(seen), buckets)
		}
		release(t, store, user("key 3"))
		agree("after a release", buckets-1)
		d.AgeRows(t, user("key 5"), (2 * time.Hour).Microseconds())
		agree("after an end by time", buckets-2)
		if _, err := lockout.All(t.Context(), store.Records, 1, 2); !errors.Is(err, service.ErrConflict) {
			t.Errorf("more lockouts than are wanted: %v", err)
		}
		d.SetZone(t, service.Zone{ID: 1, Rate: 1, Window: time.Hour})
		if page, err := store.Records.Locked(t.Context(), lockout.Query{ZoneID: 1}); err != nil || len(page.Lockouts) != 0 {
			t.Errorf("without lockouts: %+v, %v", page, err)
		}
		if _, err := store.Records.Locked(t.Context(), lockout.Query{ZoneID: 9}); !errors.Is(err, service.ErrNotFound) {
			t.Errorf("of no zone: %v", err)
		}
	})
}
