package db

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"velocityd/db/session"
	"velocityd/service"
	"velocityd/tools/enginetest"
)

func deny(key string) service.Override {
	return service.Override{ZoneID: 1, Key: key, Action: service.OverrideDeny}
}

func within(prefix string) service.Override {
	return service.Override{ZoneID: 1, Prefix: netip.MustParsePrefix(prefix), Action: service.OverrideAllow}
}

// overridden is a database with zone 1, whose keys are addresses.
func overridden(t *testing.T, f form) (*enginetest.Database, *Store) {
	t.Helper()
	return f.stand(t, session.Options{}, service.Zone{
		ID: 1, Rate: 5, Window: time.Minute,
		Keys: service.KeyRule{Kind: service.KeyIP, IPv6Prefix: 128},
	})
}

func TestOverridesAreAddedSetReadListedAndDeleted(t *testing.T) {
	t.Parallel()
	eachForm(t, func(t *testing.T, f form) {
		d, store := overridden(t, f)
		d.SetZone(t, zone(2, 5, time.Minute))
		d.SetOverride(t, service.Override{ZoneID: 2, Key: "of another zone", Action: service.OverrideAllow})
		ctx := context.Background()
		ids := map[uint64]service.Override{}
		var first uint64
		for _, o := range []service.Override{
			{
				ZoneID: 1, Key: "192.0.2.1", Action: service.OverrideLimit, Rate: 0, Window: service.Lasting(service.MaxWindow),
				ExpiresAt: service.At(time.Date(2199, 12, 31, 23, 59, 59, 999999000, time.UTC)), Reason: strings.Repeat("é", 255),
				CreatedBy: "bob",
			},
			within("203.0.113.0/24"), within("2001:db8::/32"), within("0.0.0.0/0"), within("::/0"), deny("10.0.0.1"),
		} {
			added, err := store.Records.AddOverride(ctx, o, "ann")
			if o.CreatedBy == "" {
				o.CreatedBy = "ann"
			}
			if err != nil || added.ID == 0 {
				t.Fatalf("added %+v, %v", added, err)
			}
			o.ID = added.ID
			if !added.ExpiresAt.Equal(o.ExpiresAt.Time) || !same(added, o) {
				t.Errorf("added %+v, want %+v", added, o)
			}
			if got, err := store.Records.Override(ctx, 1, o.ID); err != nil || !same(got, o) {
				t.Errorf("read %+v, %v, want %+v", got, err, o)
			}
			ids[o.ID], first = o, o.ID
		}
		changed := within("198.51.100.0/24")
		changed.ID, changed.Action, changed.Rate, changed.Window.Duration = first, service.OverrideLimit, 3, time.Minute
		set, err := store.Records.SetOverride(ctx, changed, "eve")
		changed.CreatedBy = "ann" // CreatedBy stays
		if err != nil || !same(set, changed) {
			t.Errorf("set %+v, %v, want %+v", set, err, changed)
		}
		var listed []uint64
		for after := uint64(0); ; after = listed[len(listed)-1] {
			page, err := store.Records.Overrides(ctx, 1, after, 4)
			if err != nil || len(page) > 4 {
				t.Fatal(page, err)
			}
			if len(page) == 0 {
				break
			}
			for _, o := range page {
				listed = append(listed, o.ID)
			}
		}
		if want := slices.Sorted(maps.Keys(ids)); !slices.Equal(listed, want) {
			t.Errorf("listed %d, want %d", listed, want)
		}
		for id := range ids {
			if err := store.Records.DeleteOverride(ctx, 1, id, "ann"); err != nil {
				t.Error(err)
			}
		}
		if list, err := store.Records.Overrides(ctx, 1, 0, 100); err != nil || len(list) != 0 {
			t.Errorf("after deleting all: %v, %v", list, err)
		}
	})
}

func same(a, b service.Override) bool {
	if !a.ExpiresAt.Equal(b.ExpiresAt.Time) {
		return false
	}
	a.ExpiresAt.Time, b.ExpiresAt.Time = time.Time{}, time.Time{}
	return a == b
}

func TestOneTargetHasOneOverrideAtATime(t *testing.T) {
	t.Parallel()
	eachForm(t, func(t *testing.T, f form) {
		d, store := overridden(t, f)
		for name, o := range map[string]service.Override{
			"key": deny("192.0.2.1"), "prefix": within("192.0.2.0/24"),
			"all": within("::/0"),
		} {
			first, err := store.Records.AddOverride(t.Context(), o, "ann")
			if err != nil {
				t.Fatal(err)
			}
			if _, err := store.Records.AddOverride(t.Context(), o, "bob"); !errors.Is(err, service.ErrConflict) {
				t.Errorf("%s, while there is one: %v, want ErrConflict", name, err)
			}
			other := within("198.51.100.0/24")
			if other, err = store.Records.AddOverride(t.Context(), other, ""); err != nil {
				t.Fatal(err)
			}
			moved := o
			moved.ID = other.ID
			if _, err := store.Records.SetOverride(t.Context(), moved, "bob"); !errors.Is(err, service.ErrConflict) {
				t.Errorf("%s, moved onto another: %v, want ErrConflict", name, err)
			}
			enginetest.Exec(t, d.SQL, "UPDATE zone_override SET expires_at = UTC_TIMESTAMP(6) WHERE id = ?", first.ID)
			second, err := store.Records.AddOverride(t.Context(), o, "bob")
			if err != nil || second.ID == first.ID || second.CreatedBy != "bob" {
				t.Errorf("%s, when the first has expired: %+v, %v", name, second, err)
			}
			if _, err := store.Records.Override(t.Context(), 1, first.ID); !errors.Is(err, service.ErrNotFound) {
				t.Errorf("%s: the expired one: %v, want ErrNotFound", name, err)
			}
			if err := store.Records.DeleteOverride(t.Context(), 1, other.ID, ""); err != nil {
				t.Fatal(err)
			}
		}
	})
}

// ban returns an override deny of zone 1 that ends at the hour. 0 is one without an end.
func ban(o service.Override, reason string, hour int) service.Override {
	o.Action, o.Reason = service.OverrideDeny, reason
	if hour > 0 {
		o.ExpiresAt.Time = time.Date(2190, 1, 1, hour, 0, 0, 0, time.UTC)
	}
	return o
}

func TestOfTwoBansTheLaterEndStays(t *testing.T) {
	t.Parallel()
	eachForm(t, func(t *testing.T, f form) {
		d, store := overridden(t, f)
		for name, target := range map[string]service.Override{"key": deny("192.0.2.1"), "prefix": within("198.51.100.0/24")} {
			for _, step := range []struct {
				reason string
				hour   int
				want   string // the reason and the hour that stand then
			}{
				{"jail", 5, "jail 5"},
				{"recidive", 9, "recidive 9"},
				{"jail", 7, "recidive 9"},
				{"recidive", 2, "recidive 9"},
				{"mail", 9, "recidive 9"},
				{"mail", 0, "mail 0"},
				{"jail", 11, "mail 0"},
				{"jail", 0, "mail 0"},
			} {
				got, err := store.Records.ExtendOverride(t.Context(), ban(target, step.reason, step.hour), "ann")
				if stands := fmt.Sprint(got.Reason, " ", got.ExpiresAt.UTC().Hour()); err != nil || stands != step.want {
					t.Errorf("%s, %s %d: %s stands, %v; want %s", name, step.reason, step.hour, stands, err, step.want)
				}
				read, err := store.Records.Override(t.Context(), 1, got.ID)
				if err != nil || !same(read, got) {
					t.Errorf("%s: read %+v, %v; want %+v", name, read, err, got)
				}
			}
			other := ban(target, "mail", 0)
			other.Action = service.OverrideAllow
			if _, err := store.Records.ExtendOverride(t.Context(), other, ""); !errors.Is(err, service.ErrConflict) {
				t.Errorf("%s, allowed: %v, want ErrConflict", name, err)
			}
			enginetest.Exec(t, d.SQL, "UPDATE zone_override SET expires_at = UTC_TIMESTAMP(6)")
			if got, err := store.Records.ExtendOverride(t.Context(), other, ""); err != nil ||
				got.Action != service.OverrideAllow {
				t.Errorf("%s, when the ban has expired: %+v, %v", name, got, err)
			}
		}
	})
}

func TestABanEndsByItsReasonAlone(t *testing.T) {
	t.Parallel()
	eachForm(t, func(t *testing.T, f form) {
		_, store := overridden(t, f)
		made, err := store.Records.ExtendOverride(t.Context(), ban(deny("192.0.2.1"), "jail", 5), "ann")
		if err != nil {
			t.Fatal(err)
		}
		for _, reason := range []string{"Jail", "jail ", "", "recidive"} {
			err := store.Records.EndOverride(service.WithReason(t.Context(), reason), 1, made.ID, "")
			if !errors.Is(err, service.ErrConflict) {
				t.Errorf("by %q: %v, want ErrConflict", reason, err)
			}
		}
		if got, err := store.Records.Override(t.Context(), 1, made.ID); err != nil || !same(got, made) {
			t.Errorf("left is %+v, %v", got, err)
		}
		for _, want := range []error{nil, service.ErrNotFound} {
			if err := store.Records.EndOverride(service.WithReason(t.Context(), "jail"), 1, made.ID, ""); !errors.Is(err, want) {
				t.Errorf("by its reason: %v, want %v", err, want)
			}
		}
	})
}

func TestOfBansAtOnceTheLatestStays(t *testing.T) {
	t.Parallel()
	eachForm(t, func(t *testing.T, f form) {
		_, store := overridden(t, f)
		var all sync.WaitGroup
		for hour := 1; hour <= 12; hour++ {
			all.Go(func() {
				if _, err := store.Records.ExtendOverride(t.Context(), ban(deny("192.0.2.1"), fmt.Sprint(hour), hour),
					""); err != nil {
					t.Errorf("ban until %d: %v", hour, err)
				}
			})
		}
		all.Wait()
		if left, err := store.Records.Overrides(t.Context(), 1, 0, 10); err != nil || len(left) != 1 ||
			left[0].Reason != "12" {
			t.Errorf("left are %+v, %v; want the one until 12", left, err)
		}
	})
}

func TestOverrideEditsAtOnceNeverDeadlock(t *testing.T) {
	t.Parallel()
	eachForm(t, func(t *testing.T, f form) {
		d, _ := overridden(t, f)
		store := f.connect(t, d, session.Options{LockWait: 20 * time.Second}) // an edit waits once
		atOnce(8, func(caller int) {
			for round := range 6 {
				o := deny(fmt.Sprint("10.0.", caller, ".", round))
				if round%2 == 1 {
					o = within(fmt.Sprintf("10.%d.0.0/16", caller))
				}
				added, err := store.Records.AddOverride(context.Background(), o, "ann")
				if err == nil {
					added.Reason = "set"
					added, err = store.Records.SetOverride(context.Background(), added, "bob")
				}
				if err == nil {
					err = store.Records.DeleteOverride(context.Background(), 1, added.ID, "eve")
				}
				if err == nil {
					_, err = store.Records.PutZone(context.Background(), zone(2, round, time.Minute), service.Match{}, "")
				}
				if err != nil {
					t.Error(err)
				}
			}
		})
		d.WantCount(t, 0, "SELECT COUNT(*) FROM zone_override")
		d.WantCount(t, 3*8*6, "SELECT COUNT(*) FROM zone_audit WHERE subject = 'override'")
	})
}

// TestLifetimeDenyIsAnsweredAlikeByBothForms meets a retry_after beyond 31
// bits.
func TestLifetimeDenyIsAnsweredAlikeByBothForms(t *testing.T) {
	t.Parallel()
	enginetest.Each(t, func(t *testing.T, engine *enginetest.Engine) {
		d, store := overridden(t, form{engine})
		o := deny("192.0.2.1")
		o.ExpiresAt.Time = time.Date(2199, 12, 31, 0, 0, 0, 0, time.UTC)
		d.SetOverride(t, o)
		for name, question := range map[string]service.Check{
			"single":  {Buckets: []service.Bucket{user("192.0.2.1")}},
			"batch":   {Buckets: []service.Bucket{user("192.0.2.1"), user("192.0.2.2")}},
			"attempt": {Buckets: []service.Bucket{user("192.0.2.1")}, AttemptID: "a"},
			"retry":   {Buckets: []service.Bucket{user("192.0.2.1")}, AttemptID: "a"},
		} {
			decisions, err := store.CheckAll(t.Context(), service.Call{Checks: []service.Check{question}})
			if err != nil || !decisions[0].Blocked || time.Until(o.ExpiresAt.Time)-decisions[0].RetryAfter() > time.Hour {
				t.Errorf("%s: retry after %v, %v, want %v", name, decisions, err, time.Until(o.ExpiresAt.Time))
			}
		}
	})
}

// TestOverrideComingAndGoingNeverSplitsCheck has checks of two buckets meet
// an override that allows the second one now and then: the check passes in both
// or in none.
func TestOverrideComingAndGoingNeverSplitsCheck(t *testing.T) {
	t.Parallel()
	enginetest.Each(t, func(t *testing.T, engine *enginetest.Engine) {
		d, store := overridden(t, form{engine})
		d.SetZone(t, zone(1, 1_000_000, time.Hour))
		d.SetZone(t, zone(2, 0, time.Hour))
		allow := service.Override{ZoneID: 2, Key: "b", Action: service.OverrideAllow}
		d.SetOverride(t, allow)
		toggle := "deny"
		stop := meanwhile(func() {
			enginetest.Exec(t, d.SQL, "UPDATE zone_override SET action = ? WHERE zone_id = 2 AND bucket_key = 'b'", toggle)
			toggle = map[string]string{"deny": "allow", "allow": "deny"}[toggle]
		})
		for range 300 {
			decisions, err := store.CheckAll(
				t.Context(), service.Call{Checks: check(user("a"), service.Bucket{ZoneID: 2, Key: "b"})})
			if err != nil {
				t.Error(err)
				break
			}
			if v := decisions[0].Verdicts; decisions[0].Blocked != v[1].Blocked {
				t.Errorf("answered %+v", decisions[0])
			}
		}
		stop()
		if n := d.Count(t, `SELECT COUNT(*) FROM (
SELECT check_id FROM zone_txn WHERE check_id IS NOT NULL GROUP BY check_id HAVING MIN(blocked) <> MAX(blocked)) AS split`); n != 0 {
			t.Errorf("%d checks passed in one bucket and not in the other", n)
		}
	})
}

// TestSQLCallersNameAddressesAlone holds for zones of addresses with overrides of networks.
func TestSQLCallersNameAddressesAlone(t *testing.T) {
	t.Parallel()
	enginetest.Each(t, func(t *testing.T, engine *enginetest.Engine) {
		d := engine.Database(t)
		addresses := zone(1, 5, time.Hour)
		addresses.Keys = service.KeyRule{Kind: service.KeyIP}
		d.SetZone(t, addresses)
		d.SetOverride(
			t, service.Override{ZoneID: 1, Prefix: netip.MustParsePrefix("0.0.0.0/0"), Action: service.OverrideDeny})
		d.SetOverride(t, service.Override{ZoneID: 1, Prefix: netip.MustParsePrefix("::/0"), Action: service.OverrideDeny})
		conn := sqlSession(t, d)
		for _, key := range []string{
			"999.1.1.1", "1.2.3", "::g", ":::", "/8", "é", "fe80", "1.2.3.4.5/8", "9.1.1.1/40", "9.1.1.1/08",
			"9.1.1.1/99999999999",
		} {
			if r, err := call(conn, service.Bucket{ZoneID: 1, Key: key}); !session.IsNumber(err, session.NumberBadArgument) {
				t.Errorf("%q: blocked %v, %v", key, r.blocked, err)
			}
		}
		if r, err := call(conn, service.Bucket{ZoneID: 1, Key: "9.1.1.1"}); err != nil || !r.blocked {
			t.Errorf("an address: blocked %v, %v", r.blocked, err)
		}
	})
}
