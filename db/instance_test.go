package db

import (
	"slices"
	"testing"

	"velocityd/db/dbtest"
	"velocityd/db/session"
	"velocityd/service"
)

// TestInstancesAreListedUntilTheyHaveBeenSilentForADay uses the account of the service.
func TestInstancesAreListedUntilTheyHaveBeenSilentForADay(t *testing.T) {
	t.Parallel()
	eachForm(t, func(t *testing.T, f form) {
		d := f.database(t)
		store, ctx := f.connect(t, d.ServiceAccount(t), session.Options{}), t.Context()
		for _, i := range []service.Instance{
			{Name: "first", Host: "app-1", Version: "1", Allowed: 1},
			{Name: "first", Host: "app-1", Version: "1", Allowed: 9, Blocked: 2, Undecided: 1},
			{Name: "silent"},
			{Name: "gone"},
		} {
			if err := store.NoteInstance(ctx, i); err != nil {
				t.Fatal(err)
			}
		}
		dbtest.Exec(t, d.SQL, "UPDATE service_instance SET seen_at = seen_at + INTERVAL 1 HOUR WHERE name = 'first'") // however slow the test is
		dbtest.Exec(t, d.SQL, "UPDATE service_instance SET seen_at = seen_at - INTERVAL 1 MINUTE WHERE name = 'silent'")
		dbtest.Exec(t, d.SQL, "UPDATE service_instance SET seen_at = seen_at - INTERVAL 25 HOUR WHERE name = 'gone'")
		list, err := store.Instances(ctx)
		if err != nil || len(list) != 2 {
			t.Fatalf("got %+v, %v", list, err)
		}
		at := slices.IndexFunc(list, func(i service.Instance) bool { return i.Name == "first" })
		first, silent := list[at], list[1-at]
		if first.IsSilent || !silent.IsSilent || first.Host != "app-1" || first.Allowed != 9 || first.Blocked != 2 || first.Undecided != 1 ||
			!first.SeenAt.After(first.StartedAt) {
			t.Errorf("got %+v", list)
		}
		if err := store.ForgetInstances(ctx); err != nil || d.Count(t, "SELECT COUNT(*) FROM service_instance") != 2 {
			t.Errorf("afterwards there are %d, %v", d.Count(t, "SELECT COUNT(*) FROM service_instance"), err)
		}
	})
}
