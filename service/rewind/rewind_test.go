package rewind_test

import (
	"slices"
	"testing"
	"time"

	"velocityd/service"
	"velocityd/service/rewind"
)

func TestAZoneIsWhatItWasBeforeTheFirstOfItsChanges(t *testing.T) {
	t.Parallel()
	was, later := &service.Zone{ID: 1, Rate: 5}, &service.Zone{ID: 1, Rate: 9}
	changes := []rewind.Change{{ID: 3, OverrideID: 7}, {ID: 4, Zone: was}, {ID: 5, Zone: later}, {ID: 6}}
	for first, want := range []struct {
		zone   *service.Zone
		madeBy uint64
	}{{was, 0}, {was, 0}, {later, 0}, {nil, 6}, {nil, 0}} {
		if zone, madeBy := rewind.Zone(changes[first:]); zone != want.zone || madeBy != want.madeBy {
			t.Errorf("from change %d on: %v, %d", first, zone, madeBy)
		}
	}
}

func TestOverridesComeBackThatAreGoneAndHaveRoom(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 11, 27, 12, 0, 0, 0, time.UTC)
	of := func(id uint64, key string, rate int) *service.Override {
		return &service.Override{ID: id, ZoneID: 1, Key: key, Action: service.OverrideLimit, Rate: rate}
	}
	expired := of(5, "eve", 1)
	expired.ExpiresAt = now
	changes := []rewind.Change{
		{ID: 1, OverrideID: 1, Override: of(1, "alice", 1)}, // changed, and deleted later
		{ID: 2, OverrideID: 1, Override: of(1, "alice", 2)},
		{ID: 3, OverrideID: 2, Override: of(2, "bob", 1)},   // still there
		{ID: 4, OverrideID: 3, Override: of(3, "carol", 1)}, // another one is there
		{ID: 5, OverrideID: 4},                              // made meanwhile
		{ID: 6, OverrideID: 4, Override: of(4, "dave", 1)},
		{ID: 7, OverrideID: 5, Override: expired},
		{ID: 8, OverrideID: 6, Override: of(6, "alice", 3)}, // the key has come back
	}
	got := rewind.Overrides(changes, []service.Override{*of(2, "bob", 1), *of(9, "carol", 4)}, now)
	if want := []service.Override{*of(1, "alice", 1)}; !slices.Equal(got, want) {
		t.Errorf("%+v comes back", got)
	}
}
