package service_test

import (
	"time"

	"velocityd/service"
)

// book is a service.Ledger by the names of its buckets.
type book struct {
	Zones        map[int64]service.Zone
	Overrides    []service.Override
	Counted      map[service.Bucket][]time.Time
	Velocities   map[service.Bucket]service.Velocity
	Lockouts     map[service.Bucket]service.Lockout
	Series       map[service.Bucket]service.Series
	Attempts     map[string]service.Attempt
	Held         map[service.Bucket]bool
	AttemptsHeld bool
}

// decide asks Decide with the part of a book that checks need.
func decide(now time.Time, l book, checks []service.Check) service.Ruling {
	return service.Decide(now, l.of(checks), checks)
}

func (l book) of(checks []service.Check) service.Ledger {
	ledger := service.Ledger{Zones: l.Zones, Overrides: l.Overrides, Attempts: l.Attempts, AttemptsHeld: l.AttemptsHeld}
	places := map[service.Bucket]int{}
	for _, check := range checks {
		var of []int
		for _, b := range check.Buckets {
			place, known := places[b]
			if !known {
				place = len(ledger.Buckets)
				places[b] = place
				state := service.BucketState{Counted: l.Counted[b], Lockout: l.Lockouts[b], Held: l.Held[b]}
				if series, ok := l.Series[b]; ok {
					state.Series = &series
				}
				if v, ok := l.Velocities[b]; ok {
					state.Velocity = &v
				}
				ledger.Buckets = append(ledger.Buckets, state)
			}
			of = append(of, place)
		}
		ledger.Places = append(ledger.Places, of)
	}
	return ledger
}
