package backtest

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"velocityd/service"
)

// Audited is one change, with the states before and after it: nil where there was none. A release has Released alone.
type Audited struct {
	At                            time.Time
	ZoneBefore, ZoneAfter         *service.Zone
	OverrideBefore, OverrideAfter *service.Override
	Released                      *service.Bucket
}

// NewPast goes back from present zones and overrides, by all changes since an instant in their order, to the settings at
// that instant.
func NewPast(zones []service.Zone, overrides []service.Override, audited []Audited) Past {
	zoneOf, overrideOf := map[int64]service.Zone{}, map[uint64]service.Override{}
	for _, zone := range zones {
		zoneOf[zone.ID] = zone
	}
	for _, o := range overrides {
		overrideOf[o.ID] = o
	}
	var past Past
	for _, a := range audited {
		past.Changes = append(past.Changes, a.change())
	}
	for _, a := range slices.Backward(audited) {
		rewind(zoneOf, a.ZoneBefore, a.ZoneAfter, func(z service.Zone) int64 { return z.ID })
		rewind(overrideOf, a.OverrideBefore, a.OverrideAfter, func(o service.Override) uint64 { return o.ID })
	}
	past.Zones = slices.SortedFunc(maps.Values(zoneOf), func(x, y service.Zone) int { return cmp.Compare(x.ID, y.ID) })
	past.Overrides = slices.SortedFunc(maps.Values(overrideOf), func(x, y service.Override) int { return cmp.Compare(x.ID, y.ID) })
	return past
}

// rewind takes one change back.
func rewind[K comparable, T any](of map[K]T, before, after *T, id func(T) K) {
	if after != nil {
		delete(of, id(*after))
	}
	if before != nil {
		of[id(*before)] = *before
	}
}

// change returns the change as a replay makes it.
func (a Audited) change() Change {
	c := Change{At: a.At, Zone: a.ZoneAfter, Override: a.OverrideAfter, Released: a.Released}
	if a.ZoneAfter == nil && a.ZoneBefore != nil {
		c.Zone = Deleted(a.ZoneBefore.ID)
	}
	if a.OverrideAfter == nil {
		c.Gone = a.OverrideBefore
	}
	return c
}
