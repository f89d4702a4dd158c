// Package explain says why a recorded attempt was decided as it was. It takes the rows that could count at that
// instant, and the zones, overrides and lockouts as they were then, and asks service.Decide again. It has no rule
// besides that one, and must not know any machine.
package explain

import (
	"time"

	"velocityd/service"
)

const (
	// MostRows is how many txns an explanation looks at, in all buckets of the check together: so many that count, and so
	// many that do not.
	MostRows = 20_000
	// MostChanges is how many rows of zone_audit it looks at, the newest of the check's zones.
	MostChanges = 20_000
	// MostListed is how many of the rows that counted it lists, the newest.
	MostListed = 1000
	// Lag is how much older than its commit the instant of a row of zone_audit may be. A decision that came in
	// between was made by the settings from before.
	Lag = 10 * time.Second
	// mostBegins bounds how many such settings are tried.
	mostBegins = 16
)

// Evidence is all that an explanation is made of. Its rows are as they are now.
type Evidence struct {
	Now time.Time // by the engine's clock
	Txn service.Txn
	// Check holds the txns of the check of Txn that are still there, by id. Txn is one of them.
	Check []service.Txn
	// Missing is how many txns of the check are not there any more.
	Missing int
	// Buckets are the pasts of the buckets of Check, in its order.
	Buckets []Past
	Records Records
	// Oldest is the oldest txn of all that is still there. It is the first of its database if its id is 1.
	Oldest service.Txn
	// Previous and Next are the attempts of the same bucket before and after Txn, or nil.
	Previous, Next *service.Txn
}

// Past is one bucket as its rows tell of it.
type Past struct {
	// Rows are the txns that may have counted: they count now, or stopped at the instant of the check or later.
	Rows []service.Txn
	// Lockouts are the txns with which lockouts began, the oldest first. They were read from LockoutsSince on.
	Lockouts      []service.Txn
	LockoutsSince time.Time
	// Last is the bucket's last lockout now.
	Last service.Lockout
	// Cut is not the zero time if there were more than MostRows allows: rows up to this instant were not looked at.
	Cut time.Time
}

// Records are zones and overrides as they are now, and the changes by which they became so.
type Records struct {
	Zones     map[int64]service.Zone
	Overrides []service.Override // those that may hold for a bucket of the check
	// Changes are the newest of the zones and of such overrides, the newest first.
	Changes []Change
	// Releases are those of the check's buckets, in any order.
	Releases []Release
	// Since is the instant since which Changes and Releases hold all that there were. The zero time is for ever.
	Since time.Time
	// KeepDays is for how many days txns are kept at least, in zones that do not want more; 0 is for ever.
	KeepDays int
}

// Change is one change of a zone or an override.
type Change struct {
	At     time.Time
	ZoneID int64
	// OverrideID is 0 if the zone itself was changed.
	OverrideID uint64
	// Zone and Override are as they were before. Both are nil if there was none.
	Zone     *service.Zone
	Override *service.Override
}

// Release is one release of a bucket.
type Release struct {
	At     time.Time
	Bucket service.Bucket
}

// world is the settings at an instant.
type world struct {
	zones     map[int64]service.Zone
	overrides []service.Override
}

// at returns the settings as they were before all changes after an instant. isKnown is false if there were changes
// since that the records do not hold.
func (r Records) at(instant time.Time) (w world, isKnown bool) {
	w = world{zones: map[int64]service.Zone{}}
	overrides := map[uint64]service.Override{}
	for id, zone := range r.Zones {
		w.zones[id] = zone
	}
	for _, o := range r.Overrides {
		overrides[o.ID] = o
	}
	for _, c := range r.Changes {
		if !c.At.After(instant) {
			break
		}
		switch {
		case c.OverrideID != 0 && c.Override == nil:
			delete(overrides, c.OverrideID)
		case c.OverrideID != 0:
			overrides[c.OverrideID] = *c.Override
		case c.Zone == nil:
			delete(w.zones, c.ZoneID)
		default:
			w.zones[c.ZoneID] = *c.Zone
		}
	}
	for _, o := range overrides {
		w.overrides = append(w.overrides, o)
	}
	return w, !instant.Before(r.Since)
}

// ofZone returns the records of one zone alone, without overrides.
func (r Records) ofZone(id int64) Records {
	own := Records{Zones: map[int64]service.Zone{}, Since: r.Since}
	if zone, exists := r.Zones[id]; exists {
		own.Zones[id] = zone
	}
	for _, c := range r.Changes {
		if c.ZoneID == id && c.OverrideID == 0 {
			own.Changes = append(own.Changes, c)
		}
	}
	return own
}

// keptSince returns the instant before which txns of a zone may have been removed, or the zero time.
func (r Records) keptSince(now time.Time, zoneID int64) time.Time {
	days := max(r.KeepDays, r.Zones[zoneID].KeepDays)
	if r.KeepDays == 0 {
		return time.Time{}
	}
	return now.AddDate(0, 0, -days)
}

// begins returns the instants from which the settings of a check at an instant may have been in force: that one, and
// for each change shortly before it the last instant without it.
func (r Records) begins(instant time.Time) []time.Time {
	begins := []time.Time{instant}
	for _, c := range r.Changes {
		if !c.At.After(instant) && instant.Sub(c.At) <= Lag && len(begins) < mostBegins {
			begins = append(begins, c.At.Add(-time.Microsecond))
		}
	}
	return begins
}

// released returns the last release of a bucket up to an instant, or the zero time.
func (r Records) released(bucket service.Bucket, instant time.Time) (last time.Time) {
	for _, release := range r.Releases {
		if release.Bucket == bucket && !release.At.After(instant) && release.At.After(last) {
			last = release.At
		}
	}
	return last
}
