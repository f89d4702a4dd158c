package db

import (
	"fmt"
	"testing"
	"time"

	"velocityd/db/dbtest"
	"velocityd/db/session"
	"velocityd/service"
)

// TestZonesThatNeedTheWholeRuleAreJudgedByIt writes such zones by plain SQL and by the store. None of them was narrowed, so a
// plain count would let each second attempt pass: by check_velocity for a lone check, by the store for several at once.
func TestZonesThatNeedTheWholeRuleAreJudgedByIt(t *testing.T) {
	t.Parallel()
	eachForm(t, func(t *testing.T, f form) {
		d, store := f.stand(t, session.Options{})
		dbtest.Exec(t, d.SQL, "INSERT INTO zone_master (id, rate, `window`, concurrent) VALUES (1, 5, 60, 1), (2, 5, 60, 0), (3, 5, 60, 0)")
		dbtest.Exec(t, d.SQL, "UPDATE zone_master SET concurrent = 1 WHERE id = 2")
		for id := range int64(2) {
			wanted := zone(id+3, 5, time.Minute)
			wanted.Concurrent = 1
			put(t, store, wanted, "ann")
		}
		if f.engine == nil { // where a new zone counts as narrowed
			dbtest.Exec(t, d.SQL, "UPDATE zone_master SET narrowed_at = '2001-01-01'")
		}
		for id := int64(1); id <= 4; id++ {
			lone, batch := check(service.Bucket{ZoneID: id, Key: "lone"}), check(service.Bucket{ZoneID: id, Key: "batch"})
			for n, want := range []service.Reason{"", service.ReasonConcurrent} {
				if got, err := ask(t.Context(), store, lone); err != nil || got.Verdicts[0].Reason != want {
					t.Errorf("zone %d, lone check %d: %+v, %v, want %q", id, n, got, err, want)
				}
			}
			decisions, err := store.CheckAll(t.Context(), service.Call{Checks: append(batch, batch...)})
			if err != nil || decisions[0].Blocked || decisions[1].Verdicts[0].Reason != service.ReasonConcurrent {
				t.Errorf("zone %d, two checks: %+v, %v", id, decisions, err)
			}
		}
	})
}

// TestAZoneThatNeedsTheWholeRuleNoMoreCountsAsNarrowed: its buckets may hold more than a plain count takes for possible.
func TestAZoneThatNeedsTheWholeRuleNoMoreCountsAsNarrowed(t *testing.T) {
	t.Parallel()
	eachForm(t, func(t *testing.T, f form) {
		d, store := f.stand(t, session.Options{})
		dbtest.Exec(t, d.SQL, "INSERT INTO zone_master (id, rate, `window`, concurrent, repeat_secret) VALUES "+
			"(1, 5, 60, 1, 'count'), (2, 5, 60, 0, 'free'), (3, 5, 60, 1, 'free'), (4, 5, 60, 0, 'count')")
		told := func(id int64) string {
			return fmt.Sprint(d.Count(t, "SELECT whole_rule FROM zone_master WHERE id = ?", id),
				d.Count(t, "SELECT narrowed_at > UTC_TIMESTAMP() - INTERVAL 1 HOUR FROM zone_master WHERE id = ?", id))
		}
		for id, want := range []string{1: "1 0", 2: "1 0", 3: "1 0", 4: "0 0"} {
			if id > 0 && told(int64(id)) != want {
				t.Errorf("zone %d as it was written: %s, want %s", id, told(int64(id)), want)
			}
		}
		for id, want := range []string{1: "0 1", 2: "0 1", 3: "0 1", 4: "0 0"} {
			if id == 0 {
				continue
			}
			put(t, store, zone(int64(id), 5, time.Minute), "ann")
			if told(int64(id)) != want {
				t.Errorf("zone %d by its defaults: %s, want %s", id, told(int64(id)), want)
			}
		}
	})
}
