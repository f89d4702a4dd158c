package service

import "time"

// Decider decides as Decide does, again and again in the same memory, for callers that decide millions of checks. Its
// zero value is ready. It is for one goroutine.
type Decider struct{ decider decider }

// Decide is the function Decide. The ruling is good until the next call. Zones that a ledger had before are not looked
// at again: after a change of one call Forget.
func (d *Decider) Decide(now time.Time, ledger Ledger, checks []Check) Ruling {
	if d.decider.zones == nil {
		d.Forget()
	}
	d.decider.begin(now, ledger, checks)
	return d.decider.decideAll(checks)
}

// Forget forgets the zones.
func (d *Decider) Forget() { d.decider.zones = map[int64]*Zone{} }

// zeroed returns n zero values, in the memory of a slice if that has room.
func zeroed[T any](memory []T, n int) []T {
	if cap(memory) < n {
		return make([]T, n)
	}
	memory = memory[:n]
	clear(memory)
	return memory
}
