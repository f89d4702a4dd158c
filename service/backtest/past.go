package backtest

import (
	"cmp"
	"maps"
	"slices"

	"velocityd/service"
	"velocityd/service/audit"
)

// NewPast goes back from present zones and overrides, by all edits since an instant in their order, to the settings at
// that instant.
func NewPast(zones []service.Zone, overrides []service.Override, edits []audit.Edit) Past {
	zoneOf, overrideOf := map[int64]service.Zone{}, map[uint64]service.Override{}
	for _, zone := range zones {
		zoneOf[zone.ID] = zone
	}
	for _, o := range overrides {
		overrideOf[o.ID] = o
	}
	for _, e := range slices.Backward(edits) {
		e.Undo(zoneOf, overrideOf)
	}
	return Past{
		Zones: slices.SortedFunc(maps.Values(zoneOf), func(x, y service.Zone) int { return cmp.Compare(x.ID, y.ID) }),
		Overrides: slices.SortedFunc(maps.Values(overrideOf),
			func(x, y service.Override) int { return cmp.Compare(x.ID, y.ID) }),
		Edits: edits,
	}
}
