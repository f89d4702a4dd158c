package zonereport

import (
	"slices"
	"time"
)

// goesOn is how long ago the last attempt of an attack is that goes on.
const goesOn = 15 * time.Minute

// Attack is an address that tries users, or a user that is tried.
type Attack struct {
	Burst
	// Zone is that of the key, and OtherZone that of the others.
	Zone, OtherZone int64
	IsSpray         bool
	One             string // the only other one of a series, or ""
	Part            Part   // that the numbers are about
}

// Attacks are those that go on at the end of a report, and those that are over, the last ones first.
type Attacks struct{ GoOn, Over []Attack }

// Attacks returns the sprays, the targets and the guesses of the report.
func (r Report) Attacks() (list Attacks) {
	var all []Attack
	for _, b := range r.Sprays {
		all = append(all, Attack{Burst: b, Zone: r.AddressesZone, OtherZone: r.UsersZone, IsSpray: true})
	}
	for _, b := range r.Targets {
		all = append(all, Attack{Burst: b, Zone: r.UsersZone, OtherZone: r.AddressesZone})
	}
	for _, s := range r.Guesses {
		b := Burst{Key: s.User, Others: 1, BeginsAt: s.BeginsAt, LastAt: s.LastAt, Attempts: s.Attempts, Blocked: s.Blocked}
		if s.TxnID != 0 {
			b.Successes, b.Succeeded = 1, []string{s.Address}
		}
		all = append(all, Attack{Burst: b, Zone: r.UsersZone, OtherZone: r.AddressesZone, One: s.Address})
	}
	slices.SortStableFunc(all, func(x, y Attack) int { return y.LastAt.Compare(x.LastAt.Time) })
	for _, one := range all {
		one.Part = r.ReadAt(one.BeginsAt.Time)
		if r.Until.Sub(one.LastAt.Time) < goesOn {
			list.GoOn = append(list.GoOn, one)
		} else {
			list.Over = append(list.Over, one)
		}
	}
	return list
}

// SeesNow reports whether the time in which attacks go on was read.
func (r Report) SeesNow() bool {
	part := r.ReadAt(r.Until.Add(-time.Microsecond))
	return !part.isEmpty() && !part.Since.After(later(r.Since.Time, r.Until.Add(-goesOn)))
}

// Whole returns the time of the report.
func (r Report) Whole() Part { return Part{r.Since, r.Until} }

// Piece returns the part of an hour that is in the time of the report.
func (r Report) Piece(hour HourTotals) Part {
	return r.Whole().Within(hour.BeginsAt.Time, hour.BeginsAt.Add(time.Hour))
}

// HowRead says of an hour whether it was read, as far as it is in the time of the report: yes, in part, or no.
func (r Report) HowRead(hour HourTotals) string {
	piece := r.Piece(hour)
	for _, read := range r.Read {
		switch both := read.Within(piece.Since.Time, piece.Until.Time); {
		case both == piece:
			return "yes"
		case !both.isEmpty():
			return "in part"
		}
	}
	return "no"
}

// Unread returns the parts of the time that were not read.
func (r Report) Unread() (parts []Part) {
	at := r.Since
	for _, read := range append(slices.Clone(r.Read), Part{r.Until, r.Until}) {
		if at.Before(read.Since.Time) {
			parts = append(parts, Part{at, read.Since})
		}
		at = read.Until
	}
	return parts
}
