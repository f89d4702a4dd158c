package db

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"velocityd/db/dbtest"
	"velocityd/db/session"
	"velocityd/service"
	"velocityd/service/barred"
)

func TestTheListHasEachLockoutOnceAndAgreesWithTheCensus(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, e *dbtest.Engine) {
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
			all, failed := barred.All(t.Context(), store.Lockouts, 1, buckets)
			if err != nil || failed != nil || census[0].Locked != want || len(all) != want || census[1].Locked != 0 {
				t.Errorf("%s: census %+v, %v, and the list has %d, %v; want %d", when, census, err, len(all), failed, want)
			}
		}
		agree("at first", buckets)
		seen := map[string]bool{}
		for q := (barred.Query{ZoneID: 1, Limit: 3}); ; {
			page, err := store.Lockouts.Locked(t.Context(), q)
			if err != nil || len(page.Lockouts) > q.Limit {
				t.Fatalf("%+v, %v", page, err)
			}
			for _, l := range page.Lockouts {
				if seen[l.Key] || l.Until.Sub(l.Since.Time) != time.Hour || l.Reason != service.ReasonLockout || q.Cursor != 0 && l.TxnID >= q.Cursor {
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
		if _, err := barred.All(t.Context(), store.Lockouts, 1, 2); !errors.Is(err, service.ErrConflict) {
			t.Errorf("more lockouts than are wanted: %v", err)
		}
		d.SetZone(t, service.Zone{ID: 1, Rate: 1, Window: time.Hour})
		if page, err := store.Lockouts.Locked(t.Context(), barred.Query{ZoneID: 1}); err != nil || len(page.Lockouts) != 0 {
			t.Errorf("without lockouts: %+v, %v", page, err)
		}
		if _, err := store.Lockouts.Locked(t.Context(), barred.Query{ZoneID: 9}); !errors.Is(err, service.ErrNotFound) {
			t.Errorf("of no zone: %v", err)
		}
	})
}
