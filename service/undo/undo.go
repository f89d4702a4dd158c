// Package undo finds a zone and its overrides as they were before a change, from the changes since. It must not know
// where changes are kept, and it changes nothing.
package undo

import (
	"net/netip"
	"time"

	"velocityd/service"
	"velocityd/service/audit"
)

// Zone returns the zone as it was before the first of some edits, which are in their order. The result is nil if none
// of them is about the zone itself, or if one of them has made it: then madeBy is its id.
func Zone(edits []audit.Edit) (before *service.Zone, madeBy uint64) {
	for _, e := range edits {
		switch {
		case e.ZoneBefore != nil:
			return e.ZoneBefore, 0
		case e.ZoneAfter != nil:
			return nil, e.ID
		}
	}
	return nil, 0
}

// Overrides returns the overrides that one of some edits has deleted, as they were before the first edit that concerns
// them. there are those of now. Those that have expired at now, or whose key or network has another override, are left
// out.
func Overrides(edits []audit.Edit, there []service.Override, now time.Time) (deleted []service.Override) {
	type target struct {
		key    string
		prefix netip.Prefix
	}
	seen, taken := map[uint64]bool{}, map[target]bool{}
	for _, o := range there {
		seen[o.ID], taken[target{o.Key, o.Prefix}] = true, true
	}
	for _, e := range edits {
		if e.OverrideBefore == nil {
			if e.OverrideAfter != nil { // it was made after the moment that is restored
				seen[e.OverrideAfter.ID] = true
			}
			continue
		}
		o := *e.OverrideBefore
		if seen[o.ID] {
			continue
		}
		seen[o.ID] = true
		if of := (target{o.Key, o.Prefix}); !taken[of] && !service.HasExpired(o.ExpiresAt.Time, now) {
			taken[of] = true
			deleted = append(deleted, o)
		}
	}
	return deleted
}
