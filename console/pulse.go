package console

import (
	"fmt"
	"net/http"
	"sync"
	"time"

	"velocityd/console/figure"
	"velocityd/console/words"
	"velocityd/service"
)

const (
	// mostPulses bounds the readings that are kept, and pulseGap is the least time between two of them.
	mostPulses = 60
	pulseGap   = 2 * time.Second
	// rateLength is the time over which a rate is taken, if there are readings of it.
	rateLength = time.Minute
	// chartLength is the time that a chart of rates is about at most.
	chartLength = 10 * time.Minute
)

// pulses are the last readings of this instance's numbers. Pages make them: while nobody looks, there are none.
type pulses struct {
	mu   sync.Mutex
	list []service.Pulse
}

// note keeps a reading, and returns all that are kept and not older than chartLength, the oldest first.
func (p *pulses) note(now service.Pulse) []service.Pulse {
	p.mu.Lock()
	defer p.mu.Unlock()
	if n := len(p.list); n == 0 || now.At.Sub(p.list[n-1].At) >= pulseGap {
		p.list = append(p.list, now)
	}
	first := max(0, len(p.list)-mostPulses)
	for first < len(p.list) && now.At.Sub(p.list[first].At) > chartLength {
		first++
	}
	p.list = append([]service.Pulse(nil), p.list[first:]...)
	return append([]service.Pulse(nil), p.list...)
}

// beat is how this instance goes: a reading, and what has changed since another one.
type beat struct {
	service.Pulse
	// Over is the time of the rates. IsWhole says that it is all the time since the start.
	Over    time.Duration
	IsWhole bool
	// Rates of checks a second.
	Allowed, Blocked, Undecided float64
	Near                        uint64 // that came near their limit in this time
	P50, P99                    quantile
	Chart                       *figure.Chart
	Points                      []beatPoint
}

// beatPoint is the rates between two readings.
type beatPoint struct {
	At                          time.Time
	Allowed, Blocked, Undecided float64
}

// beat asks this instance for its numbers. It returns nil if it keeps none.
func (v *visit) beat() (*beat, error) {
	now, err := v.api.Pulse(v.r.Context())
	if statusOf(err) == http.StatusNotFound {
		return nil, nil //nolint:nilnil // an instance without metrics
	}
	if err != nil {
		return nil, err
	}
	return newBeat(now, v.pulses.note(now)), nil
}

// newBeat compares a reading with earlier ones.
func newBeat(now service.Pulse, readings []service.Pulse) *beat {
	before, isWhole := service.Pulse{At: now.StartedAt}, true
	for _, reading := range readings {
		if age := now.At.Sub(reading.At); age >= pulseGap && age <= rateLength+pulseGap {
			before, isWhole = reading, false
			break
		}
	}
	p := pointBetween(before, now)
	b := &beat{
		Pulse: now, Over: now.At.Sub(before.At), IsWhole: isWhole, Allowed: p.Allowed, Blocked: p.Blocked, Undecided: p.Undecided,
		Near: now.NearLimit - before.NearLimit, P50: quantileOf(before, now, .5), P99: quantileOf(before, now, .99),
	}
	for i := 1; i < len(readings); i++ {
		b.Points = append(b.Points, pointBetween(readings[i-1], readings[i]))
	}
	if len(b.Points) > 1 {
		b.Chart = chartOf(b.Points)
	}
	return b
}

// pointBetween returns the rates between two readings.
func pointBetween(before, after service.Pulse) beatPoint {
	seconds := max(after.At.Sub(before.At).Seconds(), .001)
	rate := func(a, b uint64) float64 { return float64(b-a) / seconds }
	undecided := func(c service.PulseCounts) uint64 { return c.Busy + c.Undecided + c.Failed }
	return beatPoint{
		At: after.At, Allowed: rate(before.Counts.Allowed, after.Counts.Allowed), Blocked: rate(before.Counts.Blocked, after.Counts.Blocked),
		Undecided: rate(undecided(before.Counts), undecided(after.Counts)),
	}
}

// chartOf returns the chart of rates.
func chartOf(points []beatPoint) *figure.Chart {
	c := &figure.Chart{Series: []figure.Series{
		{Label: "Allowed", Colour: "--accent", Fill: "--accent-bg"},
		{Label: "Blocked", Colour: "--stop"},
		{Label: "Undecided", Colour: "--wait", Dash: []int{4, 3}},
	}, Unit: "a second", Values: make([][]float64, 4)}
	for _, p := range points {
		for i, n := range []float64{float64(p.At.Unix()), p.Allowed, p.Blocked, p.Undecided} {
			c.Values[i] = append(c.Values[i], n)
		}
	}
	return c
}

// quantile is a duration that a part of all calls did not exceed, as far as a histogram tells.
type quantile struct {
	Length  time.Duration
	IsAbove bool // it is above Length, the highest bound of the histogram
	IsNone  bool // there were no calls
}

// quantileOf returns a quantile of the calls between two readings. Between the bounds of the histogram it takes calls for
// evenly spread.
func quantileOf(before, after service.Pulse, part float64) quantile {
	calls := make([]float64, len(after.Durations))
	for i, d := range after.Durations {
		calls[i] = float64(d.Calls)
		if i < len(before.Durations) {
			calls[i] -= float64(before.Durations[i].Calls)
		}
	}
	if len(calls) == 0 || calls[len(calls)-1] == 0 {
		return quantile{IsNone: true}
	}
	wanted := part * calls[len(calls)-1]
	lower, below := time.Duration(0), 0.0
	for i, n := range calls[:len(calls)-1] {
		upper := after.Durations[i].UpTo
		if n >= wanted && n > below {
			return quantile{Length: lower + time.Duration(float64(upper-lower)*(wanted-below)/(n-below))}
		}
		lower, below = upper, n
	}
	return quantile{Length: lower, IsAbove: true}
}

// String is the quantile in milliseconds.
func (q quantile) String() string {
	switch ms := float64(q.Length) / float64(time.Millisecond); {
	case q.IsNone:
		return "–"
	case q.IsAbove:
		return fmt.Sprintf("> %.0f", ms)
	case ms < 10:
		return fmt.Sprintf("%.2f", ms)
	default:
		return fmt.Sprintf("%.0f", ms)
	}
}

// rate returns a number a second, with one digit below ten.
func rate(n float64) string {
	if n > 0 && n < 10 {
		return fmt.Sprintf("%.1f", n)
	}
	return words.Num(int64(n + .5))
}
