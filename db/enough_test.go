package db

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"testing"
	"time"

	"velocityd/db/session"
	"velocityd/service"
	"velocityd/tools/enginetest"
	"velocityd/tools/nightly"
)

// Ways in which a batch could decide by too little.

// edited is a connection whose packets a test changes on the way.
type edited struct {
	session.DriverConn
	edit func(packet string) string
}

func (e edited) QueryContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Rows, error) {
	return e.DriverConn.QueryContext(ctx, e.edit(query), args)
}

func (e edited) ExecContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Result, error) {
	return e.DriverConn.ExecContext(ctx, e.edit(query), args)
}

// onTheWay returns a store with one connection for checks, whose packets edit changes.
func onTheWay(t *testing.T, d *enginetest.Database, edit func(packet string) string) *Store {
	t.Helper()
	store := connect(t, d, session.Options{MaxConns: 2})
	editPackets(t, store, edit)
	return store
}

// editPackets has edit change the packets of the only connection of a store for checks.
func editPackets(t *testing.T, store *Store, edit func(packet string) string) {
	t.Helper()
	conn, err := store.checks.Conn(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if err := conn.Raw(func(inner any) error {
		own, ok := inner.(*session.Conn)
		if !ok {
			return fmt.Errorf("a connection has a %T", inner)
		}
		own.DriverConn = edited{own.DriverConn, edit}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
}

// leave records counted txns of a bucket.
func leave(t *testing.T, d *enginetest.Database, bucket service.Bucket, instants ...time.Time) {
	t.Helper()
	(&twin{Database: d}).fill(t, bucket, instants)
}

func wantBlocked(t *testing.T, store service.CheckStore, want bool, buckets ...service.Bucket) service.Decision {
	t.Helper()
	decision, err := ask(t.Context(), store, check(buckets...))
	if err != nil || decision.Blocked != want {
		t.Errorf("%+v: blocked %v, %v, want %v", buckets, decision.Blocked, err, want)
	}
	return decision
}

func TestALongListHidesNoOtherBucket(t *testing.T) {
	t.Parallel()
	enginetest.Each(t, func(t *testing.T, engine *enginetest.Engine) {
		d := engine.Database(t, zone(1, 1000, time.Hour))
		now := time.Now().UTC()
		for _, key := range []string{"a", "b", "z"} { // before and behind the long one
			leave(t, d, user(key), now.Add(-time.Minute), now.Add(-2*time.Minute))
		}
		long := make([]time.Time, 5*mostListed)
		for i := range long {
			long[i] = now.Add(-time.Duration(i) * time.Second)
		}
		leave(t, d, user("m"), long...)
		d.SetZone(t, zone(1, 2, time.Hour))
		store := connect(t, d, session.Options{})
		for range 2 { // without and with a cache
			wantBlocked(t, store, true, user("new"), user("z"))
			wantBlocked(t, store, true, user("new"), user("m"), user("a"))
			wantBlocked(t, store, true, user("b"), user("m"))
		}
	})
}

func TestOverrideWithLongerWindowThanZoneIsObeyed(t *testing.T) {
	t.Parallel()
	enginetest.Each(t, func(t *testing.T, engine *enginetest.Engine) {
		d, store := stand(t, engine, session.Options{}, zone(1, 2, time.Minute), zone(2, 2*mostListed, time.Minute))
		long := time.Now().UTC().Add(-time.Hour)
		leave(t, d, service.Bucket{ZoneID: 1, Key: "x"}, long)
		leave(t, d, service.Bucket{ZoneID: 2, Key: "x"}, long)
		for _, id := range []int64{1, 2} {
			bucket, other := service.Bucket{ZoneID: id, Key: "x"}, service.Bucket{ZoneID: id, Key: "other"}
			wantBlocked(t, store, false, bucket, other)
			d.SetOverride(t, service.Override{
				ZoneID: id, Key: "x", Action: service.OverrideLimit, Rate: 2,
				Window: service.Lasting(2 * time.Hour),
			})
			wantBlocked(t, store, true, other, bucket)
		}
	})
}

// TestLateCommittedNarrowingIsCountedRight leaves more txns than the new rate
// although the zone says that it has been narrow for longer than its window.
func TestLateCommittedNarrowingIsCountedRight(t *testing.T) {
	t.Parallel()
	enginetest.Each(t, func(t *testing.T, engine *enginetest.Engine) {
		d := engine.Database(t)
		const rate = mostListed + 1
		d.SetZone(t, zone(1, rate, time.Hour))
		now := time.Now().UTC()
		instants := []time.Time{now.Add(-59 * time.Minute)}
		for range rate {
			instants = append(instants, now.Add(-30*time.Minute))
		}
		leave(t, d, user("x"), instants...)
		d.LeaveUnaudited()
		store := connect(t, d, session.Options{})
		for range 2 {
			got := wantBlocked(t, inBatches{store}, true, user("x"))
			if got.Verdicts[0].RetryAfter.Duration < 29*time.Minute {
				t.Errorf("retry after %s, when the bucket is still full", got.Verdicts[0].RetryAfter.Duration)
			}
		}
	})
}

// TestMisjudgedClockHidesNoTxn finds a bucket full, for any time that the store takes for the
// engine's when it asks for the list.
func TestMisjudgedClockHidesNoTxn(t *testing.T) {
	t.Parallel()
	enginetest.Each(t, func(t *testing.T, engine *enginetest.Engine) {
		for _, rate := range []int{1, 2 * mostListed} {
			d := engine.Database(t, zone(1, rate, time.Hour))
			instants := make([]time.Time, rate)
			for i := range instants {
				instants[i] = time.Now().UTC().Add(-59 * time.Minute)
			}
			leave(t, d, user("x"), instants...)
			store := connect(t, d, session.Options{})
			for _, ahead := range []time.Duration{0, time.Minute, 100 * 24 * time.Hour, -time.Minute, -100 * 24 * time.Hour} {
				store.cache.sawClock(time.Now().Add(ahead))
				got := wantBlocked(t, inBatches{store}, true, user("x"))
				if left := got.Verdicts[0].RetryAfter.Duration; left > time.Minute {
					t.Errorf("rate %d, taken for %s ahead: retry after %s", rate, ahead, left)
				}
			}
		}
	})
}

// TestZoneMadeMeanwhileIsNotDecidedWithoutLock makes a zone between the
// packet that locks and the one that reads again.
func TestZoneMadeMeanwhileIsNotDecidedWithoutLock(t *testing.T) {
	t.Parallel()
	enginetest.Each(t, func(t *testing.T, engine *enginetest.Engine) {
		d := engine.Database(t, zone(1, 5, time.Hour))
		d.Hold(t, user("known"))() // makes its row: the second packet reads again and locks nothing
		late := service.Bucket{ZoneID: 2, Key: "late"}
		packets := 0
		store := onTheWay(t, d, func(packet string) string {
			if packets++; packets == 2 {
				d.SetZone(t, zone(2, 5, time.Hour))
			}
			return packet
		})
		decisions, err := store.CheckAll(t.Context(), service.Call{Checks: append(check(user("known")), check(late)...)})
		if packets < 2 {
			t.Fatal("one packet was enough: this test proves nothing")
		}
		if err != nil || decisions[0].Err != nil || !errors.Is(decisions[1].Err, service.ErrNotFound) {
			t.Errorf("got %+v, %v, want the zone unknown as it was when the buckets were locked", decisions, err)
		}
		wantBlocked(t, store, false, late)
	})
}

// TestRowHidingSessionIsCorrected connects with settings of an init_connect,
// under which SELECTs answer of fewer rows, or of other keys.
func TestRowHidingSessionIsCorrected(t *testing.T) {
	t.Parallel()
	enginetest.Each(t, func(t *testing.T, engine *enginetest.Engine) {
		d, account, begin := beginner(t, engine, zone(1, 3, time.Hour))
		settings := []string{"sql_select_limit=1", "character_set_results=latin1", "NAMES latin1", "completion_type=1"}
		if nightly.Is() {
			settings = append(settings,
				"sql_mode='ANSI,NO_BACKSLASH_ESCAPES'", "sql_mode=''",
				"sql_mode='PIPES_AS_CONCAT,IGNORE_SPACE,HIGH_NOT_PRECEDENCE'",
				"time_zone='+13:00'", "time_zone='-12:00'", "completion_type=2", "NAMES latin1 COLLATE latin1_swedish_ci",
				"NAMES utf8mb4 COLLATE utf8mb4_bin", "sql_safe_updates=1", "unique_checks=0", "foreign_key_checks=0",
				"lock_wait_timeout=1")
		}
		for i, name := range settings {
			begin("SET " + name)
			anna, jürgen, zoë := user(fmt.Sprint("Æ'\\\"|%_", i)), user(fmt.Sprint("jürgen, ", i)), user(fmt.Sprint("zoë, ", i))
			store := connect(t, account, session.Options{})
			for range 5 {
				if _, err := store.CheckAll(
					t.Context(), service.Call{Checks: append(check(anna, jürgen), check(zoë)...)}); err != nil {
					t.Errorf("%s: %v", name, err)
				}
			}
			for _, bucket := range []service.Bucket{anna, jürgen, zoë} {
				wantBlocked(t, inBatches{store}, true, bucket)
			}
		}
		d.Audit(t, zone(1, 3, time.Hour))
		d.AwaitNone(t, "the test")
	})
}
