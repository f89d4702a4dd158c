package api

import (
	"time"

	"velocityd/service"
)

// Pulse is the answer of GET /v1/pulse.
type Pulse struct {
	Instance  string          `json:"instance"`
	Version   string          `json:"version"`
	StartedAt Instant         `json:"started_at"`
	At        Instant         `json:"at"`
	Ready     bool            `json:"ready"`
	Counts    PulseCounts     `json:"counts"`
	NearLimit uint64          `json:"near_limit"`
	Waiting   int             `json:"waiting"`
	Durations []DurationCount `json:"durations"`
	// Locked is nil if the locked buckets were not counted yet.
	Locked *int `json:"locked,omitzero"`
}

// PulseCounts are checks by their answers.
type PulseCounts struct {
	Allowed    uint64 `json:"allowed"`
	WouldBlock uint64 `json:"would_block"`
	Blocked    uint64 `json:"blocked"`
	Degraded   uint64 `json:"degraded"`
	Busy       uint64 `json:"busy"`
	Undecided  uint64 `json:"undecided"`
	Failed     uint64 `json:"failed"`
}

// DurationCount is how many calls took at most so many seconds, or any number of them if it has none.
type DurationCount struct {
	UpTo  float64 `json:"up_to,omitzero"`
	Calls uint64  `json:"calls"`
}

// NewPulse returns the answer for the numbers of an instance.
func NewPulse(p service.Pulse) Pulse {
	answer := Pulse{
		Instance: p.Instance, Version: p.Version, StartedAt: Instant(p.StartedAt), At: Instant(p.At), Ready: p.Ready,
		Counts: PulseCounts(p.Counts), NearLimit: p.NearLimit, Waiting: p.Waiting, Locked: p.Locked,
		Durations: make([]DurationCount, len(p.Durations)),
	}
	for i, d := range p.Durations {
		answer.Durations[i] = DurationCount{UpTo: d.UpTo.Seconds(), Calls: d.Calls}
	}
	return answer
}

// Pulse converts the answer to the type of package service.
func (p Pulse) Pulse() service.Pulse {
	pulse := service.Pulse{
		Instance: p.Instance, Version: p.Version, StartedAt: p.StartedAt.Time(), At: p.At.Time(), Ready: p.Ready,
		Counts: service.PulseCounts(p.Counts), NearLimit: p.NearLimit, Waiting: p.Waiting, Locked: p.Locked,
	}
	for _, d := range p.Durations {
		upTo := time.Duration(d.UpTo * float64(time.Second)).Round(time.Microsecond)
		pulse.Durations = append(pulse.Durations, service.DurationCount{UpTo: upTo, Calls: d.Calls})
	}
	return pulse
}
