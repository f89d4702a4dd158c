// Package explain says why a recorded attempt was decided as it was. It takes the rows that could count at that
// instant, and the zones, overrides and lockouts as they were then, and asks service.Decide again. It has no rule
// besides that one, and must not know any machine.
package explain

import (
	"maps"
	"slices"
	"time"

	"velocityd/service"
	"velocityd/service/audit"
)

const (
	// MostRows is how many txns an explanation looks at, in all buckets of the check together: so many that count, and so
	// many that do not.
	MostRows = 20_000
	// MostEdits is how many rows of zone_audit it looks at, the newest of the check's zones.
	MostEdits = 20_000
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
	// Rows are the txns that may have counted, and those with which lockouts began, in any order. Others among them do no
	// harm. Those that do not count now were read from Since on.
	Rows  []service.Txn
	Since time.Time
	// Last is the bucket's last lockout now.
	Last service.Lockout
	// Cut is not the zero time if there were more than MostRows allows: rows up to this instant were not looked at.
	Cut time.Time
}

// Records are zones and overrides as they are now, and the edits by which they became so.
type Records struct {
	Zones     map[int64]service.Zone
	Overrides []service.Override // those that may hold for a bucket of the check
	// Edits are the newest of the zones, of such overrides, and of buckets, the newest first.
	Edits []audit.Edit
	// Since is the instant since which Edits hold all that there were. The zero time is for ever.
	Since time.Time
	// KeepDays is for how many days txns are kept at least, in zones that do not want more; 0 is for ever.
	KeepDays int
}

// settings is the settings at an instant.
type settings struct {
	zones     map[int64]service.Zone
	overrides []service.Override
}

// at returns the settings as they were before all edits after an instant. isKnown is false if there were edits since
// that the records do not hold.
func (r Records) at(instant time.Time) (w settings, isKnown bool) {
	w = settings{zones: map[int64]service.Zone{}}
	overrides := map[uint64]service.Override{}
	maps.Copy(w.zones, r.Zones)
	for _, o := range r.Overrides {
		overrides[o.ID] = o
	}
	for _, e := range r.Edits {
		if !e.At.After(instant) {
			break
		}
		e.Undo(w.zones, overrides)
	}
	w.overrides = slices.Collect(maps.Values(overrides))
	return w, !instant.Before(r.Since)
}

// ofZone returns the records of one zone alone, without overrides.
func (r Records) ofZone(id int64) Records {
	own := Records{Zones: map[int64]service.Zone{}, Since: r.Since}
	if zone, exists := r.Zones[id]; exists {
		own.Zones[id] = zone
	}
	is := func(z *service.Zone) bool { return z != nil && z.ID == id }
	for _, e := range r.Edits {
		if is(e.ZoneBefore) || is(e.ZoneAfter) {
			own.Edits = append(own.Edits, e)
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
// for each edit of a setting shortly before it the last instant without it.
func (r Records) begins(instant time.Time) []time.Time {
	begins := []time.Time{instant}
	for _, e := range r.Edits {
		isEdit := e.Released == nil
		if isEdit && !e.At.After(instant) && instant.Sub(e.At) <= Lag && len(begins) < mostBegins {
			begins = append(begins, e.At.Add(-time.Microsecond))
		}
	}
	return begins
}

// released returns the last release of a bucket up to an instant, or the zero time.
func (r Records) released(bucket service.Bucket, instant time.Time) (last time.Time) {
	for _, e := range r.Edits {
		if e.Released != nil && *e.Released == bucket && !e.At.After(instant) && e.At.After(last) {
			last = e.At
		}
	}
	return last
}
