package db

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jmoiron/sqlx"

	"velocityd/db/session"
	"velocityd/db/zonerow"
	"velocityd/service"
	"velocityd/tools/enginetest"
)

// every is a zone with no setting at its default.
func every(id int64) service.Zone {
	return service.Zone{
		ID: id, Description: "é 🔑 ' \" \\", Rate: 7, Window: service.PeriodMonth.Length(),
		Calendar: service.Calendar{Period: service.PeriodMonth, Offset: -300, Anchor: 31}, Mode: service.ModeShadow,
		Counts: service.CountsFailures, ReserveTTL: 30 * time.Second, ResetOnSuccess: true, Concurrent: 3,
		RepeatSecret:  service.RepeatFree,
		Lockout:       time.Minute,
		LockoutFactor: 1.25, LockoutMax: time.Hour, LockoutDecay: 2 * time.Hour,
		Keys:      service.KeyRule{Kind: service.KeyIP, Form: service.KeyHMAC, IPv4Prefix: 24, IPv6Prefix: 48},
		OnFailure: service.OnFailureBlock, RecordBlocked: 10, KeepDays: 800, Totals: true,
	}
}

func TestZonesCanBePutReadListedAndDeleted(t *testing.T) {
	t.Parallel()
	eachForm(t, func(t *testing.T, f form) {
		store := f.connect(t, f.database(t), session.Options{})
		ctx := context.Background()
		if zones, err := store.Records.Zones(ctx); err != nil || len(zones) != 0 {
			t.Errorf("no zone yet: got %v, %v", zones, err)
		}
		var want []service.Zone
		for _, zone := range []service.Zone{
			zone(2, 5, time.Minute), every(7), zone(service.MaxZoneID, service.MaxRate, service.MaxWindow),
			{ID: 1, Window: service.MinWindow, Description: strings.Repeat("🔑", service.MaxDescriptionLength)},
		} {
			put, err := store.Records.PutZone(ctx, zone, service.Match{}, "")
			zone = zone.WithDefaults()
			zone.Revision = 1
			if err != nil || put != zone {
				t.Errorf("put %+v, %v, want %+v", put, err, zone)
			}
			if got, err := store.Records.Zone(ctx, zone.ID); err != nil || got != zone {
				t.Errorf("read %+v, %v, want %+v", got, err, zone)
			}
			want = append(want, zone)
		}
		slices.SortFunc(want, func(a, b service.Zone) int { return int(a.ID - b.ID) })
		if got, err := store.Records.Zones(ctx); err != nil || !slices.Equal(got, want) {
			t.Errorf("listed %+v, %v, want %+v", got, err, want)
		}
		// Replaced as a whole: a setting that is left out goes back to its default.
		put, err := store.Records.PutZone(ctx, zone(7, 1, time.Hour), service.Match{}, "")
		bare := zone(7, 1, time.Hour).WithDefaults()
		bare.Revision = 2
		if err != nil || put != bare {
			t.Errorf("put %+v, %v, want %+v", put, err, bare)
		}
		if err := store.Records.DeleteZone(ctx, 7, service.Match{}, ""); err != nil {
			t.Error(err)
		}
		if _, err := store.Records.Zone(ctx, 7); !errors.Is(err, service.ErrNotFound) {
			t.Errorf("deleted zone: %v, want ErrNotFound", err)
		}
		if err := store.Records.DeleteZone(ctx, 7, service.Match{}, ""); !errors.Is(err, service.ErrNotFound) {
			t.Errorf("deleted again: %v, want ErrNotFound", err)
		}
		if _, err := store.Records.PutZone(ctx, zone(7, -1, time.Hour), service.Match{}, ""); !errors.Is(
			err, service.ErrInvalid) {
			t.Errorf("a rate of -1: %v, want ErrInvalid", err)
		}
	})
}

func TestEveryZoneColumnIsSettingOrSchemaKept(t *testing.T) {
	t.Parallel()
	eachForm(t, func(t *testing.T, f form) {
		want := append([]string{"id", "key_rule", "whole_rule", "overridden", "revision", "narrowed_at"},
			zonerow.Settings.Names()...)
		var got []string
		if err := sqlx.NewDb(f.database(t).SQL, "mysql").Select(&got,
			"SELECT column_name FROM information_schema.columns WHERE table_schema = DATABASE() AND table_name = 'zone_master'"); err != nil {
			t.Fatal(err)
		}
		slices.Sort(want)
		slices.Sort(got)
		if !slices.Equal(got, want) {
			t.Errorf("zone_master has the columns\n%q, want\n%q", got, want)
		}
	})
}

func TestReservationOfWindowLengthFollowsTheWindow(t *testing.T) {
	t.Parallel()
	enginetest.Each(t, func(t *testing.T, engine *enginetest.Engine) {
		d, store := stand(t, engine, session.Options{})
		put(t, store, zone(1, 5, time.Minute), "")
		enginetest.Exec(t, d.SQL, "UPDATE zone_master SET `window` = 30")
		if got, err := store.Records.Zone(t.Context(), 1); err != nil || got.ReserveTTL != 30*time.Second ||
			got.Revision != 2 {
			t.Errorf("got %+v, %v, want a reservation of 30s", got, err)
		}
	})
}

func TestZoneIsWrittenOnlyIfAsExpected(t *testing.T) {
	t.Parallel()
	eachForm(t, func(t *testing.T, f form) {
		store := f.connect(t, f.database(t), session.Options{})
		ctx := context.Background()
		put := func(match service.Match) error {
			_, err := store.Records.PutZone(ctx, zone(1, 5, time.Minute), match, "")
			return err
		}
		remove := func(match service.Match) error { return store.Records.DeleteZone(ctx, 1, match, "") }
		for i, step := range []struct {
			do       func(service.Match) error
			match    service.Match
			want     error
			revision uint64 // afterwards, 0 for none
		}{
			{put, service.Match{Present: true}, service.ErrPrecondition, 0},
			{put, service.Match{Revision: 1}, service.ErrPrecondition, 0},
			{remove, service.Match{Revision: 1}, service.ErrNotFound, 0},
			{remove, service.Match{Present: true}, service.ErrNotFound, 0},
			{remove, service.Match{Absent: true}, service.ErrNotFound, 0},
			{put, service.Match{Absent: true}, nil, 1},
			{put, service.Match{Absent: true}, service.ErrPrecondition, 1},
			{put, service.Match{Present: true}, nil, 2},
			{put, service.Match{Revision: 1}, service.ErrPrecondition, 2},
			{put, service.Match{Revision: 3}, service.ErrPrecondition, 2},
			{put, service.Match{Revision: 2}, nil, 3},
			{put, service.Match{}, nil, 4}, // it counts writes, though nothing differs
			{remove, service.Match{Absent: true}, service.ErrPrecondition, 4},
			{remove, service.Match{Revision: 3}, service.ErrPrecondition, 4},
			{remove, service.Match{Revision: 4}, nil, 0},
			{put, service.Match{Absent: true}, nil, 1},
			{remove, service.Match{Present: true}, nil, 0},
		} {
			err := step.do(step.match)
			zone, _ := store.Records.Zone(ctx, 1)
			if !errors.Is(err, step.want) || zone.Revision != step.revision {
				t.Errorf("step %d, %+v: %v and revision %d, want %v and %d", i, step.match, err, zone.Revision, step.want,
					step.revision)
			}
		}
	})
}

func TestOfManyCreatorsOneCreates(t *testing.T) {
	t.Parallel()
	eachForm(t, func(t *testing.T, f form) {
		const callers = 12
		d := f.database(t)
		store := f.connect(t, d, session.Options{LockWait: 20 * time.Second}) // an edit waits once
		for id, match := range map[int64]service.Match{1: {Absent: true}, 2: {}} {
			var mu sync.Mutex
			var revisions []uint64
			atOnce(callers, func(i int) {
				put, err := store.Records.PutZone(context.Background(), zone(id, i, time.Minute), match, "")
				mu.Lock()
				defer mu.Unlock()
				switch {
				case err == nil:
					revisions = append(revisions, put.Revision)
				case !match.Absent || !errors.Is(err, service.ErrPrecondition):
					t.Errorf("%+v: %v", match, err)
				}
			})
			slices.Sort(revisions)
			want := []uint64{1}
			for r := uint64(2); !match.Absent && r <= callers; r++ {
				want = append(want, r)
			}
			if !slices.Equal(revisions, want) {
				t.Errorf("%+v: revisions %v were answered, want %v", match, revisions, want)
			}
		}
	})
}

func TestOfManyEditorsOfOneRevisionOneWrites(t *testing.T) {
	t.Parallel()
	eachForm(t, func(t *testing.T, f form) {
		const callers, rounds = 6, 5
		_, store := f.stand(t, session.Options{LockWait: 20 * time.Second}, zone(1, 0, time.Minute))
		atOnce(callers, func(int) {
			for done := 0; done < rounds; {
				before, err := store.Records.Zone(context.Background(), 1)
				if err != nil {
					t.Error(err)
					return
				}
				before.Rate++
				_, err = store.Records.PutZone(context.Background(), before, service.Match{Revision: before.Revision}, "")
				switch {
				case err == nil:
					done++
				case !errors.Is(err, service.ErrPrecondition):
					t.Error(err)
					return
				}
			}
		})
		if got, err := store.Records.Zone(t.Context(), 1); err != nil || got.Rate != callers*rounds {
			t.Errorf("got a rate of %d, %v: edits were lost, want %d", got.Rate, err, callers*rounds)
		}
	})
}

func TestDeletingZoneTakesOverridesAndLeavesTxns(t *testing.T) {
	t.Parallel()
	eachForm(t, func(t *testing.T, f form) {
		d, store := f.stand(t, session.Options{})
		for id := range int64(2) {
			d.SetZone(t, zone(id+1, 5, time.Hour))
			d.SetOverride(t, service.Override{ZoneID: id + 1, Key: "bob", Action: service.OverrideDeny})
		}
		enginetest.Exec(t, d.SQL, "INSERT INTO zone_txn (created_at, zone_id, bucket_key, blocked, would_block, counted) "+
			"VALUES (UTC_TIMESTAMP(6), 1, 'alice', FALSE, FALSE, TRUE)")
		if err := store.Records.DeleteZone(t.Context(), 1, service.Match{}, "ann"); err != nil {
			t.Fatal(err)
		}
		if n := len(d.Txns(t, user("alice"))); n != 1 {
			t.Errorf("%d txns are left, want 1", n)
		}
		d.WantCount(t, 1, "SELECT COUNT(*) FROM zone_override")
		d.WantCount(t, 2, "SELECT COUNT(*) FROM zone_audit WHERE zone_id = 1 AND action = 'delete' AND principal = 'ann'")
		// A new zone of that id begins without them.
		if _, err := store.Records.PutZone(t.Context(), zone(1, 5, time.Hour), service.Match{Absent: true}, ""); err != nil {
			t.Fatal(err)
		}
		d.WantCount(t, 0, "SELECT overridden FROM zone_master WHERE id = 1")
		d.WantCount(t, 1, "SELECT COUNT(*) FROM zone_master WHERE id = 1 AND narrowed_at > UTC_TIMESTAMP() - INTERVAL 1 HOUR")
	})
}

func TestAHeldZoneIsBusyAndNotChanged(t *testing.T) {
	t.Parallel()
	eachForm(t, func(t *testing.T, f form) {
		d, store := f.stand(t, session.Options{LockWait: time.Second, MaxConns: 1}, zone(1, 5, time.Minute))
		holder := sqlSession(t, d, "START TRANSACTION", "SELECT 1 FROM zone_master WHERE id = 1 FOR UPDATE")
		_, err := store.Records.PutZone(t.Context(), zone(1, 6, time.Minute), service.Match{}, "ann")
		if !errors.Is(err, service.ErrBusy) {
			t.Errorf("got %v, want ErrBusy", err)
		}
		enginetest.Exec(t, holder, "ROLLBACK")
		if got, err := store.Records.Zone(t.Context(), 1); err != nil || got.Rate != 5 {
			t.Errorf("got %+v, %v, want the zone as it was", got, err)
		}
		d.AwaitNone(t, "the edit")
	})
}

// TestOpenZoneInsertHoldsUpNoCheck inserts a zone between two others, and one that is there, and
// does not commit.
func TestOpenZoneInsertHoldsUpNoCheck(t *testing.T) {
	t.Parallel()
	enginetest.Each(t, func(t *testing.T, engine *enginetest.Engine) {
		d, store := stand(t, engine, session.Options{LockWait: time.Second}, zone(1, 100, time.Hour), zone(3, 100, time.Hour))
		checks := func(keys ...string) {
			t.Helper()
			for _, id := range []int64{1, 3} {
				for _, key := range keys {
					if _, err := ask(t.Context(), store, check(service.Bucket{ZoneID: id, Key: key})); err != nil {
						t.Errorf("zone %d, %s: %v", id, key, err)
					}
				}
			}
		}
		checks("d", "m", "t")
		dba := sqlSession(t, d, "SET SESSION TRANSACTION ISOLATION LEVEL REPEATABLE READ")
		for _, statement := range []string{
			"INSERT INTO zone_master (id, rate, `window`) VALUES (2, 5, 60)",
			"INSERT INTO zone_master (id, rate, `window`) VALUES (3, 5, 60) ON DUPLICATE KEY UPDATE rate = VALUES(rate)",
		} {
			enginetest.Exec(t, dba, "START TRANSACTION")
			enginetest.Exec(t, dba, statement)
			checks("a", "d", "m", "t", "z")
			enginetest.Exec(t, dba, "ROLLBACK")
		}
	})
}

// TestZonesNeedingWholeRuleAreJudgedByIt writes such zones by plain SQL and by the store. None of them was narrowed, so
// a plain count would let each second attempt pass: by check_velocity for a lone check, by the store for several at
// once.
func TestZonesNeedingWholeRuleAreJudgedByIt(t *testing.T) {
	t.Parallel()
	eachForm(t, func(t *testing.T, f form) {
		d, store := f.stand(t, session.Options{})
		enginetest.Exec(t, d.SQL,
			"INSERT INTO zone_master (id, rate, `window`, concurrent) VALUES (1, 5, 60, 1), (2, 5, 60, 0), (3, 5, 60, 0)")
		enginetest.Exec(t, d.SQL, "UPDATE zone_master SET concurrent = 1 WHERE id = 2")
		for id := range int64(2) {
			wanted := zone(id+3, 5, time.Minute)
			wanted.Concurrent = 1
			put(t, store, wanted, "ann")
		}
		if f.engine == nil { // where a new zone counts as narrowed
			enginetest.Exec(t, d.SQL, "UPDATE zone_master SET narrowed_at = '2001-01-01'")
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

// TestZoneLeavingTheWholeRuleCountsAsNarrowed: its buckets may hold more than a plain count takes for possible.
func TestZoneLeavingTheWholeRuleCountsAsNarrowed(t *testing.T) {
	t.Parallel()
	eachForm(t, func(t *testing.T, f form) {
		d, store := f.stand(t, session.Options{})
		enginetest.Exec(t, d.SQL, "INSERT INTO zone_master (id, rate, `window`, concurrent, repeat_secret) VALUES "+
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
