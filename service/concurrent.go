package service

import "time"

// openAttempts counts the attempts of a bucket under way: charged, and without an outcome for less than the zone's
// ReserveTTL. In a zone without Concurrent it is nil.
type openAttempts struct {
	count  int       // at most Concurrent
	oldest time.Time // of them
}

// wait returns the time until fewer attempts than the zone's Concurrent are under way though nobody reports an
// outcome, or 0 if there are fewer now.
func (o *openAttempts) wait(now time.Time, zone *Zone) time.Duration {
	if o == nil || o.count < zone.Concurrent {
		return 0
	}
	return o.oldest.Add(zone.ReserveTTL).Sub(now)
}

// charge counts one more.
func (o *openAttempts) charge(now time.Time) {
	if o == nil {
		return
	}
	if o.count == 0 || now.Before(o.oldest) {
		o.oldest = now
	}
	o.count++
}
