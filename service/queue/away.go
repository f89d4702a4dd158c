package queue

import (
	"errors"
	"slices"
	"time"

	"velocityd/service"
)

// Remember replaces the known zones by zones, which must be all of them.
func (c *Circuit) Remember(zones []service.Zone) {
	known, isAnswered := knownZones{}, false
	for _, zone := range zones {
		zone = zone.WithDefaults()
		known[zone.ID] = &zone
		isAnswered = isAnswered || hasAnswer(&zone)
	}
	if !isAnswered {
		c.zones.Store(nil)
		return
	}
	c.zones.Store(&known)
}

// HasAnswers reports whether there are checks that have an answer without the store.
func (c *Circuit) HasAnswers() bool { return c.zones.Load() != nil }

// knownZones are all zones as they were last seen, with every setting spelt out.
type knownZones map[int64]*service.Zone

// haveAnswer says that a check has an answer without the store.
func (k knownZones) haveAnswer(check service.Check) bool {
	for _, b := range check.Buckets {
		if !hasAnswer(k[b.ZoneID]) { // an unknown zone has no answer
			return false
		}
	}
	return true
}

// circuitCall is a call, and the part of it that the store is asked.
type circuitCall struct {
	circuit *Circuit
	zones   *knownZones // nil: no check has an answer without the store
	period  *closedPeriod
	call    service.Call

	asked []service.Check // of call.Checks; none if all were answered without the store
	// places are those of asked in the call, and answers those of all checks as far as there are any; nil: all were asked.
	places  []int
	answers []service.Decision
	// away is closed when its checks need not be asked any more, all of which have an answer then; nil: they must be.
	away <-chan struct{}
	// patience bounds the time to reach the store's engine.
	patience time.Duration
}

// begin returns the circuitCall of a call. While the circuit is open, only the checks without an answer are asked.
func (c *Circuit) begin(call service.Call) circuitCall {
	q := circuitCall{circuit: c, zones: c.zones.Load(), period: c.period.Load(), call: call, asked: call.Checks}
	switch {
	case q.zones == nil:
	case q.period.isOpen():
		q.answer()
	case !slices.ContainsFunc(call.Checks, func(check service.Check) bool { return !q.zones.haveAnswer(check) }):
		q.away, q.patience = q.period.opened, c.options.After
	}
	return q
}

// answer decides the checks that have an answer without the store, and leaves the others to be asked.
func (q *circuitCall) answer() {
	q.asked, q.answers = nil, make([]service.Decision, len(q.call.Checks))
	for i, check := range q.call.Checks {
		if q.zones.haveAnswer(check) {
			q.answers[i] = q.circuit.memory.decide(*q.zones, check)
			continue
		}
		q.asked, q.places = append(q.asked, check), append(q.places, i)
	}
	if len(q.asked) == len(q.call.Checks) {
		q.zones, q.answers = nil, nil
	}
}

// end returns the answer of the whole call, when the store has answered. It tells the circuit of
// that, and replaces errors of the store by answers without it, where that is right.
func (q *circuitCall) end(decisions []service.Decision, err error) ([]service.Decision, error) {
	switch {
	case q.zones == nil:
		return decisions, err
	case q.answers != nil:
		scatter(q.answers, q.places, decisions, err)
		return q.answers, nil
	}
	c := q.circuit
	if err != nil {
		q.period.note(err, c.options.After)
	}
	for i := range decisions {
		q.period.note(decisions[i].Err, c.options.After)
		c.memory.note(*q.zones, decisions[i])
	}
	return q.replace(decisions, err)
}

// replace replaces errors of the store by answers without it, where that is right.
func (q *circuitCall) replace(decisions []service.Decision, err error) ([]service.Decision, error) {
	checks := q.call.Checks
	replaces := func(err error) bool {
		return isAway(err) || errors.Is(err, service.ErrBusy) && !errors.Is(err, service.ErrUndecided) && q.circuit.IsOpen()
	}
	if err != nil {
		if !replaces(err) || !slices.ContainsFunc(checks, q.zones.haveAnswer) {
			return decisions, err
		}
		decisions = slices.Repeat([]service.Decision{{Err: err}}, len(checks))
	}
	for i := range min(len(decisions), len(checks)) {
		if replaces(decisions[i].Err) && q.zones.haveAnswer(checks[i]) {
			decisions[i] = q.circuit.memory.decide(*q.zones, checks[i])
		}
	}
	return decisions, nil
}
