package db

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"velocityd/db/session"
	"velocityd/service"
	"velocityd/tools/enginetest"
)

func TestEditIsRecordedWithItsCallersReasonAlone(t *testing.T) {
	t.Parallel()
	eachForm(t, func(t *testing.T, f form) {
		d, store := f.stand(t, session.Options{MaxConns: session.LeastMaxConns}) // so that a session is used again
		ann, reason := strings.Repeat("é", 128), strings.Repeat("é", 255)
		because := service.WithReason(t.Context(), reason)
		zone := service.Zone{ID: 1, Rate: 5, Window: time.Hour}
		put(t, store, zone, "") // runs the triggers with neither
		if _, err := store.Records.PutZone(because, zone, service.Match{}, ann); err != nil {
			t.Fatal(err)
		}
		if _, err := store.Records.AddOverride(because, service.Override{ZoneID: 1, Key: "a", Action: service.OverrideDeny},
			ann); err != nil {
			t.Fatal(err)
		}
		for _, who := range []string{"bob", "", "bob", ""} {
			if err := store.Records.DeleteZone(because, 99, service.Match{}, "mallory"); !errors.Is(err, service.ErrNotFound) {
				t.Error(err)
			}
			zone.Rate++
			put(t, store, zone, who)
		}
		if err := store.Records.DeleteZone(because, 1, service.Match{}, ann); err != nil {
			t.Fatal(err)
		}
		got, err := enginetest.Texts(
			d.SQL, "SELECT COALESCE(principal, '-'), COALESCE(reason, '-'), COUNT(*) FROM zone_audit GROUP BY 1, 2 ORDER BY 1")
		if want := fmt.Sprintf("[[- - 3] [bob - 2] [%s %s 4]]", ann, reason); err != nil || fmt.Sprint(got) != want {
			t.Errorf("recorded %v, %v, want %s", got, err, want)
		}
	})
}

func errorOf[T any](_ T, err error) error { return err }

func TestAnEditThatIsRefusedLeavesNothing(t *testing.T) {
	t.Parallel()
	eachForm(t, func(t *testing.T, f form) {
		d, store := overridden(t, f)
		first, err := store.Records.AddOverride(t.Context(), within("203.0.113.0/24"), "ann")
		if err != nil {
			t.Fatal(err)
		}
		second, err := store.Records.AddOverride(t.Context(), deny("192.0.2.1"), "ann")
		if err != nil {
			t.Fatal(err)
		}
		left := func() int {
			return d.Count(t, "SELECT COUNT(*) FROM zone_audit") +
				d.Count(t, "SELECT COUNT(*) FROM zone_override_prefix_length") +
				d.Count(t, "SELECT SUM(revision) FROM zone_master")
		}
		d.SetZone(t, zone(2, 5, time.Minute))
		before := left()
		second.Key, second.Prefix = "", first.Prefix
		moved, unknown, never := first, first, deny("192.0.2.2")
		moved.ZoneID, unknown.ZoneID, never.ID = 2, 9, second.ID+1
		ctx, in := t.Context(), store.Records
		for name, c := range map[string]struct{ got, want error }{
			"add of the same network": {errorOf(in.AddOverride(ctx, within("203.0.113.0/24"), "bob")), service.ErrConflict},
			"set to the same network": {errorOf(in.SetOverride(ctx, second, "bob")), service.ErrConflict},
			"put of another revision": {
				errorOf(in.PutZone(ctx, zone(1, 1, time.Minute), service.Match{Revision: 9}, "bob")),
				service.ErrPrecondition,
			},
			"deletion of another zone": {in.DeleteZone(ctx, 9, service.Match{}, "bob"), service.ErrNotFound},
			"list of an unknown zone":  {errorOf(in.Overrides(ctx, 9, 0, 10)), service.ErrNotFound},
			"read in another zone":     {errorOf(in.Override(ctx, 2, first.ID)), service.ErrNotFound},
			"read of none":             {errorOf(in.Override(ctx, 1, never.ID)), service.ErrNotFound},
			"add to an unknown zone":   {errorOf(in.AddOverride(ctx, unknown, "")), service.ErrNotFound},
			"set in another zone":      {errorOf(in.SetOverride(ctx, moved, "")), service.ErrNotFound},
			"set in an unknown zone":   {errorOf(in.SetOverride(ctx, unknown, "")), service.ErrNotFound},
			"set of none":              {errorOf(in.SetOverride(ctx, never, "")), service.ErrNotFound},
			"deletion in another zone": {in.DeleteOverride(ctx, 2, first.ID, ""), service.ErrNotFound},
			"deletion in no zone":      {in.DeleteOverride(ctx, 9, first.ID, ""), service.ErrNotFound},
			"deletion of no override":  {in.DeleteOverride(ctx, 1, never.ID, "bob"), service.ErrNotFound},
		} {
			if !errors.Is(c.got, c.want) {
				t.Errorf("%s: %v, want %v", name, c.got, c.want)
			}
		}
		if after := left(); after != before {
			t.Errorf("%d rows and revisions, and %d before", after, before)
		}
	})
}
