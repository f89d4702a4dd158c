package service

import "time"

// Pulse is the numbers of one instance since its start. They only grow, but for Waiting and Locked, so that a reader who
// comes again and again takes differences. Times are by the clock of the instance's machine.
type Pulse struct {
	Instance  string // the name of the instance, new at each start
	Version   string
	StartedAt time.Time
	At        time.Time
	Ready     bool
	Counts    PulseCounts
	NearLimit uint64 // allowed checks after which at most a fifth of the limit was left, once for each of their zones
	Waiting   int    // checks and pieces of larger calls that wait in queues
	// Durations tell how long calls for checks took, by their upper bounds.
	Durations []DurationCount
	// Locked is how many buckets of the whole database were locked out when they were counted last, within about 30 s; nil
	// says that they were not counted yet.
	Locked *int
}

// PulseCounts are checks by their answers.
type PulseCounts struct {
	Allowed    uint64 // they include WouldBlock, which a zone that only watches has not blocked
	WouldBlock uint64
	Blocked    uint64
	Degraded   uint64 // answered without the database, once for each of their zones; among no other number
	Busy       uint64 // 503: not decided, and not counted
	Undecided  uint64 // 504: perhaps counted
	Failed     uint64 // 500, or the service's account lacks a right
}

// DurationCount is how many calls took at most so long.
type DurationCount struct {
	UpTo  time.Duration // 0 for the last one, which has all calls
	Calls uint64
}
