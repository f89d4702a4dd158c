package undo_test

import (
	"slices"
	"testing"
	"time"

	"velocityd/service"
	"velocityd/service/audit"
	"velocityd/service/undo"
)

func TestRewoundZoneIsAsBeforeFirstChange(t *testing.T) {
	t.Parallel()
	was, later := &service.Zone{ID: 1, Rate: 5}, &service.Zone{ID: 1, Rate: 9}
	edits := []audit.Edit{
		{ID: 3, OverrideAfter: &service.Override{ID: 7}},
		{ID: 4, ZoneBefore: was},
		{ID: 5, ZoneBefore: later},
		{ID: 6, ZoneAfter: was},
	}
	for first, want := range []struct {
		zone   *service.Zone
		madeBy uint64
	}{{was, 0}, {was, 0}, {later, 0}, {nil, 6}, {nil, 0}} {
		if zone, madeBy := undo.Zone(edits[first:]); zone != want.zone || madeBy != want.madeBy {
			t.Errorf("from change %d on: %v, %d", first, zone, madeBy)
		}
	}
}

func TestGoneOverridesWithRoomComeBack(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 11, 27, 12, 0, 0, 0, time.UTC)
	of := func(id uint64, key string, rate int) *service.Override {
		return &service.Override{ID: id, ZoneID: 1, Key: key, Action: service.OverrideLimit, Rate: rate}
	}
	expired := of(5, "eve", 1)
	expired.ExpiresAt.Time = now
	edits := []audit.Edit{
		{ID: 1, OverrideBefore: of(1, "alice", 1)}, // changed, and deleted later
		{ID: 2, OverrideBefore: of(1, "alice", 2)},
		{ID: 3, OverrideBefore: of(2, "bob", 1)},   // still there
		{ID: 4, OverrideBefore: of(3, "carol", 1)}, // another one is there
		{ID: 5, OverrideAfter: of(4, "dave", 1)},   // made meanwhile
		{ID: 6, OverrideBefore: of(4, "dave", 1)},
		{ID: 7, OverrideBefore: expired},
		{ID: 8, OverrideBefore: of(6, "alice", 3)}, // the key has come back
	}
	got := undo.Overrides(edits, []service.Override{*of(2, "bob", 1), *of(9, "carol", 4)}, now)
	if want := []service.Override{*of(1, "alice", 1)}; !slices.Equal(got, want) {
		t.Errorf("%+v comes back", got)
	}
}
