package service_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"velocityd/service"
	"velocityd/service/memory"
	"velocityd/tools/servicetest"
)

// hidingZones are a zone that keeps pseudonyms, one that does not, and one of addresses.
func hidingZones(tb testing.TB) *memory.Store {
	tb.Helper()
	m := memory.New()
	for _, zone := range []service.Zone{
		{ID: 1, Rate: 2, Window: time.Hour, Keys: service.KeyRule{Kind: service.KeyUsername, Form: service.KeyHMAC}},
		{ID: 2, Rate: 3, Window: time.Hour},
		{
			ID: 3, Rate: 4, Window: time.Hour,
			Keys: service.KeyRule{Kind: service.KeyIP, Form: service.KeyHMAC, IPv4Prefix: 24},
		},
	} {
		m.SetZone(tb, zone)
	}
	return m
}

func TestLimiterHidesKeysFromStoreNotFromCaller(t *testing.T) {
	t.Parallel()
	for _, ids := range [][]string{{"k1"}, {"k1", "k2"}} {
		store, ring := hidingZones(t), ringOf(t, ids...)
		seen := &spy{CheckStore: store}
		limiter := service.NewLimiter(seen, service.LimiterOptions{Zones: store, Keys: ring, Timeout: time.Minute})
		asked := check(at(3, "203.0.113.9"), at(2, "Clear"), at(1, " ALICE "))
		for n := 1; n <= 3; n++ {
			decisions, err := limiter.CheckAll(t.Context(), []service.Check{asked, check(at(2, "other")), check(at(9, "alice"))})
			if err != nil || decisions[0].Err != nil || decisions[1].Err != nil ||
				!errors.Is(decisions[2].Err, service.ErrNotFound) {
				t.Fatalf("%v: %v (%v)", ids, decisions, err)
			}
			d := decisions[0]
			var named []service.Bucket
			for _, v := range d.Verdicts {
				named = append(named, v.Bucket)
			}
			if want := []service.Bucket{at(3, "203.0.113.0/24"), at(2, "Clear"), at(1, "alice")}; !slices.Equal(named, want) {
				t.Errorf("%v: verdicts on %v", ids, named)
			}
			if d.Blocked != (n == 3) || d.Verdicts[2].Velocity != min(n, 2) || d.Verdicts[0].Velocity != min(n, 2) ||
				d.Verdicts[0].Rate != 4 {
				t.Errorf("%v, attempt %d: %+v", ids, n, d)
			}
			txn, err := store.Txn(t.Context(), d.TxnID())
			if err != nil || !strings.HasPrefix(txn.Bucket.Key, "hmac:"+ids[len(ids)-1]+":") || txn.Bucket.ZoneID != 3 {
				t.Errorf("%v: the answer's txn is %+v (%v)", ids, txn, err)
			}
		}
		last := seen.asked[len(seen.asked)-1][0]
		if want := 1 + 2*len(ids); len(last.Buckets) != want || len(last.KeyRules) != want ||
			(last.Named != nil) != (len(ids) == 2) {
			t.Errorf("%v: asked %+v", ids, last)
		}
		for _, b := range last.Buckets {
			if b.ZoneID != 2 && !service.IsPseudonym(b.Key) {
				t.Errorf("%v: the store saw %v", ids, b)
			}
		}
	}
}

// spy is a store that notes its checks.
type spy struct {
	service.CheckStore
	asked [][]service.Check
}

// CheckAll implements service.CheckStore.
func (s *spy) CheckAll(ctx context.Context, call service.Call) ([]service.Decision, error) {
	s.asked = append(s.asked, call.Checks)
	return s.CheckStore.CheckAll(ctx, call)
}

func TestStoreRefusesClearKeysOfHidingZones(t *testing.T) {
	t.Parallel()
	store := hidingZones(t)
	if _, err := store.CheckAll(t.Context(), service.Call{Checks: []service.Check{check(at(1, "alice"))}}); !errors.Is(err,
		service.ErrInvalid) {
		t.Errorf("a clear key: %v", err)
	}
	hidden, err := ringOf(t, "k1").Pseudonyms(at(1, "alice"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := store.CheckAll(t.Context(), service.Call{Checks: []service.Check{check(hidden...)}}); err != nil {
		t.Errorf("a pseudonym: %v", err)
	}
}

func TestNewlyHidingZoneIsObeyedAtNextCheck(t *testing.T) {
	t.Parallel()
	store, ring := hidingZones(t), ringOf(t, "k1")
	limiter := service.NewLimiter(store, service.LimiterOptions{Zones: store, Keys: ring, Timeout: time.Minute})
	ask := func() service.Decision {
		decisions, err := limiter.CheckAll(t.Context(), []service.Check{check(at(2, "alice"))})
		if err != nil || decisions[0].Err != nil {
			t.Fatalf("%v (%v)", decisions, err)
		}
		return decisions[0]
	}
	ask()
	store.SetZone(t, service.Zone{ID: 2, Rate: 3, Window: time.Hour, Keys: service.KeyRule{Form: service.KeyHMAC}})
	if d := ask(); d.Verdicts[0].Velocity != 1 || d.Verdicts[0].Bucket != at(2, "alice") {
		t.Errorf("the windows did not begin anew: %+v", d)
	}
	if txns := store.Txns(at(2, "alice")); len(txns) != 1 {
		t.Errorf("%d txns under the clear key", len(txns))
	}
	store.SetZone(t, service.Zone{ID: 2, Rate: 3, Window: time.Hour})
	if d := ask(); d.Verdicts[0].Velocity != 2 {
		t.Errorf("the clear window is not the former one: %+v", d)
	}
}

func TestAttemptsAreTheSameAcrossARotation(t *testing.T) {
	t.Parallel()
	store := hidingZones(t)
	limiters := map[string]*service.Limiter{}
	for name, ids := range map[string][]string{"old": {"k1"}, "both": {"k1", "k2"}, "new": {"k2"}} {
		limiters[name] = service.NewLimiter(
			store, service.LimiterOptions{Zones: store, Keys: ringOf(t, ids...), Timeout: time.Minute})
	}
	ask := func(by, id string, buckets ...service.Bucket) service.Decision {
		decisions, err := limiters[by].CheckAll(t.Context(), []service.Check{{Buckets: buckets, AttemptID: id}})
		if err != nil {
			t.Fatal(err)
		}
		return decisions[0]
	}
	alice, bob, clear := at(1, "alice"), at(1, "bob"), at(2, "alice")
	for i, test := range []struct {
		first, then string
		buckets     []service.Bucket
		others      []service.Bucket // no retries
	}{
		{"old", "both", []service.Bucket{alice, clear}, []service.Bucket{bob, clear}},
		{"both", "old", []service.Bucket{clear, alice}, []service.Bucket{alice}},
		{"both", "new", []service.Bucket{alice, clear}, []service.Bucket{alice, bob, clear}},
		{"both", "both", []service.Bucket{bob, clear}, []service.Bucket{clear}},
		{"both", "new", []service.Bucket{at(1, "carol"), at(1, "dave")}, []service.Bucket{at(1, "carol")}},
		{"new", "both", []service.Bucket{at(1, "erin")}, []service.Bucket{at(1, "frank")}},
	} {
		id := fmt.Sprint("attempt-", i)
		first := ask(test.first, id, test.buckets...)
		if first.Err != nil {
			t.Fatalf("%+v: %v", test, first.Err)
		}
		again := ask(test.then, id, test.buckets...)
		if again.Err != nil || again.Blocked != first.Blocked || len(again.Verdicts) != len(test.buckets) ||
			!again.CheckedAt.Equal(first.CheckedAt.Time) {
			t.Errorf("%+v: answered %+v, then %+v", test, first, again)
		}
		for j, v := range again.Verdicts {
			if v.Bucket != test.buckets[j] || v.Velocity != first.Verdicts[j].Velocity || v.TxnID == 0 ||
				v.TxnID != first.Verdicts[j].TxnID {
				t.Errorf("%+v: verdict %d was %+v, and is %+v", test, j, first.Verdicts[j], v)
			}
		}
		if other := ask(test.then, id, test.others...); !errors.Is(other.Err, service.ErrConflict) {
			t.Errorf("%+v: other buckets: %+v", test, other)
		}
	}
}

func TestAnOverrideOfOnePseudonymHoldsForAll(t *testing.T) {
	t.Parallel()
	store, old, both := hidingZones(t), ringOf(t, "k1"), ringOf(t, "k1", "k2")
	hidden := func(ring *service.Keyring, key string) service.Bucket {
		all, err := ring.Pseudonyms(at(1, key))
		if err != nil {
			t.Fatal(err)
		}
		return all[0]
	}
	for _, o := range []service.Override{
		{Key: hidden(old, "raised").Key, Action: service.OverrideLimit, Rate: 5, Window: service.Lasting(time.Hour)},
		{Key: hidden(both, "denied").Key, Action: service.OverrideDeny},
		{Key: hidden(old, "allowed").Key, Action: service.OverrideAllow},
	} {
		o.ZoneID = 1
		servicetest.InMemory(store).SetOverride(t, o)
	}
	limiter := service.NewLimiter(store, service.LimiterOptions{Zones: store, Keys: both, Timeout: time.Minute})
	for key, want := range map[string]int{"raised": 5, "denied": 0, "allowed": 7, "plain": 2} {
		passed := 0
		for range 7 {
			decisions, err := limiter.CheckAll(t.Context(), []service.Check{check(at(1, key))})
			if err != nil || decisions[0].Err != nil {
				t.Fatalf("%v (%v)", decisions, err)
			}
			if !decisions[0].Blocked {
				passed++
			}
		}
		if passed != want {
			t.Errorf("%s: %d of 7 passed, want %d", key, passed, want)
		}
	}
}

// TestNewZonesKeyStaysUntilZoneIsRead asks about a zone that was made after the
// rules were read.
func TestNewZonesKeyStaysUntilZoneIsRead(t *testing.T) {
	t.Parallel()
	store := hidingZones(t)
	seen := &spy{CheckStore: store}
	limiter := service.NewLimiter(seen, service.LimiterOptions{Zones: store, Keys: ringOf(t, "k1"), Timeout: time.Minute})
	if _, err := limiter.CheckAll(t.Context(), []service.Check{check(at(2, "clear"))}); err != nil {
		t.Fatal(err)
	}
	store.SetZone(t, service.Zone{ID: 4, Rate: 1, Window: time.Hour, Keys: service.KeyRule{Form: service.KeyHMAC}})
	if decisions, err := limiter.CheckAll(t.Context(), []service.Check{check(at(4, "alice"))}); err != nil ||
		decisions[0].Err != nil {
		t.Errorf("%+v, %v", decisions, err)
	}
	for _, asked := range slices.Concat(seen.asked...) {
		if slices.Contains(asked.Buckets, at(4, "alice")) {
			t.Errorf("the store was asked for %+v", asked)
		}
	}
}
