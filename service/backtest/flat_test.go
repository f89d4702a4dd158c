package backtest

import (
	"fmt"
	"testing"
	"time"

	"velocityd/service"
)

// replay begins a replay of a past with some zones, of which the first is tested, and returns an instant for its begin.
func replay(t *testing.T, zones ...service.Zone) (*Replay, time.Time) {
	t.Helper()
	r, err := New(Setup{ZoneID: zones[0].ID, Proposals: zones[:1], Past: Past{Zones: zones}})
	if err != nil {
		t.Fatal(err)
	}
	return r, time.Date(2026, 11, 26, 9, 0, 0, 0, time.UTC)
}

// TestBucketsAreForgottenWhenNothingCounts replays a new key with each attempt, some of which are locked out.
func TestBucketsAreForgottenWhenNothingCounts(t *testing.T) {
	t.Parallel()
	zone := service.Zone{
		ID: 1, Rate: 1, Window: time.Minute, Lockout: time.Minute, LockoutMax: time.Minute,
		LockoutDecay: time.Minute,
	}
	r, at := replay(t, zone)
	for i := range 20_000 {
		at = at.Add(time.Second)
		for range 1 + i%2 {
			r.Add(Attempt{At: at, Places: []Place{{Bucket: service.Bucket{ZoneID: 1, Key: fmt.Sprint(i)}}}})
		}
		if len(r.buckets) > firstSweep+1 || len(r.returns) > 0 {
			t.Fatalf("after %d keys %d buckets are held", i, len(r.buckets))
		}
	}
	if got := r.Result(); got.Proposals[0].Lockouts != 10_000 || got.Demands[0].Bursts != 20_000 {
		t.Errorf("%d lockouts and %d bursts", got.Proposals[0].Lockouts, got.Demands[0].Bursts)
	}
}

// TestABusyBucketKeepsNoOldEntries has one bucket that is never empty.
func TestABusyBucketKeepsNoOldEntries(t *testing.T) {
	t.Parallel()
	zone := service.Zone{ID: 1, Rate: 1000, Window: time.Minute}
	r, at := replay(t, zone)
	bucket := service.Bucket{ZoneID: 1, Key: "a"}
	for range 20_000 {
		at = at.Add(100 * time.Millisecond)
		r.Add(Attempt{At: at, Places: []Place{{Bucket: bucket}}})
	}
	if n := cap(r.buckets[bucket].entries); n > 4*600 {
		t.Errorf("a bucket of 600 attempts in its window holds %d", n)
	}
}

// TestShortWindowZoneIsForgottenBesideLongOne has a window of a day in another zone of the checks.
func TestShortWindowZoneIsForgottenBesideLongOne(t *testing.T) {
	t.Parallel()
	short, long := service.Zone{ID: 1, Rate: 5, Window: time.Minute}, service.Zone{ID: 2, Rate: 5, Window: 24 * time.Hour}
	r, at := replay(t, short, long)
	for i := range 20_000 {
		at = at.Add(time.Second)
		r.Add(
			Attempt{At: at, Places: []Place{
				{Bucket: service.Bucket{ZoneID: 1, Key: fmt.Sprint(i)}},
				{Bucket: service.Bucket{ZoneID: 2, Key: "a"}},
			}})
		if len(r.buckets) > firstSweep+1 {
			t.Fatalf("after %d keys %d buckets are held", i, len(r.buckets))
		}
	}
}
