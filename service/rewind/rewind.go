// Package rewind finds what a zone and its overrides were before a change, from the changes since. It must not know where
// changes are kept, and it changes nothing.
package rewind

import (
	"net/netip"
	"time"

	"velocityd/service"
)

// Change is one change of a zone or of one of its overrides.
type Change struct {
	ID         uint64
	OverrideID uint64 // 0 if the zone itself was changed
	// Zone and Override are what was there before. Both are nil if the change has made it.
	Zone     *service.Zone
	Override *service.Override
}

// Zone returns the zone as it was before the first of some changes, which are in their order. The result is nil if none of
// them is about the zone itself, or if one of them has made it: then madeBy is its id.
func Zone(changes []Change) (before *service.Zone, madeBy uint64) {
	for _, change := range changes {
		switch {
		case change.OverrideID != 0:
			continue
		case change.Zone == nil:
			return nil, change.ID
		}
		return change.Zone, 0
	}
	return nil, 0
}

// Overrides returns the overrides that one of some changes has deleted, as they were before the first change that concerns
// them. there are those of now. Those that have expired at now, or whose key or network has another override, are left out.
func Overrides(changes []Change, there []service.Override, now time.Time) (deleted []service.Override) {
	type target struct {
		key    string
		prefix netip.Prefix
	}
	seen, taken := map[uint64]bool{}, map[target]bool{}
	for _, o := range there {
		seen[o.ID], taken[target{o.Key, o.Prefix}] = true, true
	}
	for _, change := range changes {
		if change.OverrideID == 0 || seen[change.OverrideID] {
			continue
		}
		seen[change.OverrideID] = true
		if change.Override == nil {
			continue // it was made after the moment that is restored
		}
		o := *change.Override
		if of := (target{o.Key, o.Prefix}); !taken[of] && !service.HasExpired(o.ExpiresAt, now) {
			taken[of] = true
			deleted = append(deleted, o)
		}
	}
	return deleted
}
