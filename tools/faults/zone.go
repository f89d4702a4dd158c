//go:build linux

package main

import (
	"fmt"
	"time"
)

// zone is a limit as docs/dba.md describes it. Windows are short, so that many of them pass in a round.
type zone struct {
	id         int
	rate       int
	lowest     int           // the least rate that an edit gives it; 0: rate
	window     time.Duration // also the length of the period
	period     string
	ttl        time.Duration // reserve_ttl; 0: the window
	failures   bool          // counts failures alone
	resets     bool          // reset_on_success
	isShadow   bool
	concurrent int
	isFree     bool // repeat_secret is free
	lockout    time.Duration
	lockoutMax time.Duration
	decay      time.Duration
	blocked    int // record_blocked
	ofIP       bool
	onFailure  string
}

// edited is the zone whose rate is edited while it is asked.
const edited = 13

// zones are those of the callers, and from firstLinear on those of the histories.
func zones() []zone {
	const s = time.Second
	return []zone{
		{id: 1, rate: 5, window: 4 * s},
		{id: 2, rate: 20, window: 6 * s, ofIP: true},
		{id: 3, rate: 3, window: 1 * s, period: "second"},
		{id: 4, rate: 60, window: 60 * s, period: "minute"},
		{id: 5, rate: 4, window: 5 * s, ttl: 3 * s, failures: true},
		{id: 6, rate: 5, window: 6 * s, failures: true, resets: true},
		{id: 7, rate: 3, window: 3 * s, lockout: 2 * s, lockoutMax: 8 * s, decay: 5 * s},
		{id: 8, rate: 3, window: 4 * s, isShadow: true},
		{id: 9, rate: 3, window: 4 * s, blocked: 2},
		{id: 10, rate: 20, window: 8 * s, ttl: 2 * s, concurrent: 2},
		{id: 11, rate: 4, window: 5 * s, isFree: true},
		{id: 12, rate: 5, window: 4 * s, onFailure: "allow"},
		{id: edited, rate: 8, lowest: 3, window: 4 * s},

		{id: firstLinear, rate: 3, window: 1 * s},
		{id: 22, rate: 3, window: 1 * s, failures: true},
		{id: 23, rate: 2, window: 1 * s, lockout: 1 * s, lockoutMax: 4 * s, decay: 2 * s},
		{id: 24, rate: 6, window: 2 * s, ttl: 1 * s, concurrent: 2},
		{id: 25, rate: 3, window: 1 * s, period: "second"},
		{id: 26, rate: 4, window: 1 * s, failures: true, resets: true},
		{id: dense, rate: 5000, window: 1 * s},
	}
}

// The zones of histories begin with firstLinear. dense has room for hundreds of attempts a second, so now and then an
// attempt comes in the very microsecond in which an earlier one stops counting.
const (
	firstLinear = 21
	dense       = 27
)

// zonesByID returns the zones by their ids.
func zonesByID() map[int]zone {
	all := map[int]zone{}
	for _, z := range zones() {
		if z.lowest == 0 {
			z.lowest = z.rate
		}
		if z.ttl == 0 {
			z.ttl = z.window
		}
		all[z.id] = z
	}
	return all
}

// insert is the statement that makes the zone. What a zone leaves out has its default.
func (z zone) insert() string {
	s := func(d time.Duration) int { return int(d / time.Second) }
	return fmt.Sprintf("INSERT INTO zone_master (id, rate, `window`, period, reserve_ttl, counts, reset_on_success, mode, "+
		"concurrent, repeat_secret, lockout, lockout_max, lockout_decay, record_blocked, key_kind, on_failure) VALUES ("+
		"%d, %d, %d, IF('%[4]s' = '', 'none', '%[4]s'), NULLIF(%d, 0), IF(%t, 'failures', 'attempts'), %t, "+
		"IF(%t, 'shadow', 'enforce'), %d, IF(%t, 'free', 'count'), %d, GREATEST(%d, 1), GREATEST(%d, 1), %d, "+
		"IF(%t, 'ip', 'opaque'), IF('%[16]s' = '', 'error', '%[16]s'))",
		z.id, z.rate, s(z.window), z.period, s(z.ttl), z.failures, z.resets, z.isShadow, z.concurrent, z.isFree, s(z.lockout),
		s(z.lockoutMax), s(z.decay), z.blocked, z.ofIP, z.onFailure)
}

// begin returns the instant since which txns count at now, by the calendar of UTC or back from now.
func (z zone) begin(now time.Time) time.Time {
	if z.period != "" {
		return now.Truncate(z.window) // a second or a minute
	}
	return now.Add(-z.window)
}
