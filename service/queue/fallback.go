package queue

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"sync/atomic"
	"time"

	"velocityd/service"
)

// DefaultDegradedAfter bounds the time that a Fallback lets a check wait for a silent store.
const DefaultDegradedAfter = 250 * time.Millisecond

// FallbackOptions configure a Fallback. Probe is required.
type FallbackOptions struct {
	// After bounds the silence of a store before it is tested, a pause of the store, and the time to reach
	// its engine. 0 is DefaultDegradedAfter.
	After time.Duration
	// Silence returns the time since the store last answered while it is asked, as Coalescer.Silence does.
	// Every word of the engine ends it, even a lock wait that timed out. Nil: silence has no effect.
	Silence func() time.Duration
	// InParts says that the store decides in parts, such as the shards of a database. One part may be
	// silent while the others answer, so a silence proves nothing unless a test fails in it. Nil: the store
	// has no parts.
	InParts func() bool
	// StuckAtMost bounds the silence of a store at work: its lock wait, and the delay of engines that end
	// it late. 0 stands for the default lock wait.
	StuckAtMost time.Duration
	// Probe tests whether the store can decide checks. It is called once a second while the circuit
	// is open, and while the store is silent. It must end by itself, and is called once at a time.
	Probe func(ctx context.Context) error
	// OnChange is called by Watch with the cause when the circuit opens, and with nil when it
	// closes.
	OnChange func(cause error)
}

// Fallback answers the checks of some zones while the store behind it is away, by the zones'
// OnFailure as they were last seen. It is a CheckStore between a Limiter and a Coalescer, or a
// store that is asked without one.
//
// A check has an answer without the store if none of its zones has OnFailureError and all of
// them are known. Where a zone has OnFailureBlock, its bucket has no room. Where it has
// OnFailureAllow, Decide decides by the memory of this instance: the attempts that the instance has
// allowed by itself, and the block or override of the store's last answer. So n instances allow at most n times the
// rate in a window while the store is away. All other checks pass through as they are, and their errors are
// those of the store.
//
// An answer without the store has Decision.Degraded. It is given only if it is sure that the
// check was not recorded: instead of ErrAway, ErrUnfit and ErrForbidden and, while the circuit
// is open, instead of any ErrBusy. It is never given instead of ErrUndecided. While the circuit
// is closed, overload and held buckets are ErrBusy as without a Fallback.
//
// The circuit opens after the first check that the store could not decide for such a reason,
// after two lost answers without an answer in between, and when the store is silent: see Watch. Checks that
// wait in a Coalescer's queue then leave it. Those that were sent before stay: only the store's
// answer tells whether they were recorded. Watch closes the circuit again.
type Fallback struct {
	store   service.CheckStore
	options FallbackOptions
	zones   atomic.Pointer[knownZones] // nil if no zone has an answer
	period  atomic.Pointer[period]
	memory  *memory
}

var _ service.CheckStore = (*Fallback)(nil)

// NewFallback returns a Fallback in front of store. It knows no zone yet, and its circuit is
// closed.
func NewFallback(store service.CheckStore, options FallbackOptions) *Fallback {
	options.After = cmp.Or(options.After, DefaultDegradedAfter)
	options.StuckAtMost = cmp.Or(options.StuckAtMost, 2*time.Second)
	if options.Silence == nil {
		options.Silence = func() time.Duration { return 0 }
	}
	if options.InParts == nil {
		options.InParts = func() bool { return false }
	}
	if options.OnChange == nil {
		options.OnChange = func(error) {}
	}
	f := &Fallback{store: store, options: options, memory: newMemory(mostRemembered)}
	f.period.Store(newPeriod())
	return f
}

// Remember replaces the known zones by zones, which must be all of them.
func (f *Fallback) Remember(zones []service.Zone) {
	known, isAnswered := knownZones{}, false
	for _, zone := range zones {
		zone = zone.WithDefaults()
		known[zone.ID] = &zone
		isAnswered = isAnswered || hasAnswer(&zone)
	}
	if !isAnswered {
		f.zones.Store(nil)
		return
	}
	f.zones.Store(&known)
}

// HasAnswers reports whether there are checks that have an answer without the store.
func (f *Fallback) HasAnswers() bool { return f.zones.Load() != nil }

// IsOpen reports whether the circuit is open: the store is known to be away.
func (f *Fallback) IsOpen() bool { return f.period.Load().isOpen() }

// Open opens the circuit, unless no zone has an answer. It is for a service that has found its
// store away before the first check.
func (f *Fallback) Open(cause error) {
	if f.zones.Load() != nil {
		f.period.Load().open(cause, false)
	}
}

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

// CheckAll implements CheckStore. Each check of a call is answered by itself. A call that holds
// both checks with an answer and checks without one ends when the store has answered the latter.
// An AttemptID of a check that is answered without the store is not remembered.
func (f *Fallback) CheckAll(ctx context.Context, call service.Call) ([]service.Decision, error) {
	zones, p := f.zones.Load(), f.period.Load()
	if zones == nil {
		return f.store.CheckAll(ctx, call)
	}
	if p.isOpen() {
		return f.askWithoutAnswer(ctx, *zones, call)
	}
	if !slices.ContainsFunc(call.Checks, func(check service.Check) bool { return !zones.haveAnswer(check) }) {
		call.Away, call.Patience = p.opened, f.options.After
	}
	decisions, err := f.store.CheckAll(ctx, call)
	if err != nil {
		p.note(err, f.options.After)
	}
	for i := range decisions {
		p.note(decisions[i].Err, f.options.After)
		f.memory.note(*zones, decisions[i])
	}
	return f.replace(*zones, call.Checks, decisions, err)
}

// askWithoutAnswer decides the checks that have an answer without the store, and asks the store for the
// rest.
func (f *Fallback) askWithoutAnswer(ctx context.Context, zones knownZones, call service.Call) ([]service.Decision, error) {
	decisions := make([]service.Decision, len(call.Checks))
	var asked []service.Check
	var places []int // of asked in checks
	for i, check := range call.Checks {
		if zones.haveAnswer(check) {
			decisions[i] = f.memory.decide(zones, check)
			continue
		}
		asked, places = append(asked, check), append(places, i)
	}
	switch len(asked) {
	case 0:
		return decisions, nil
	case len(call.Checks):
		return f.store.CheckAll(ctx, call)
	}
	answers, err := service.Ask(ctx, f.store, call.Of(asked))
	scatter(decisions, places, answers, err)
	return decisions, nil
}

// replace replaces errors of the store by answers without it, where that is right.
func (f *Fallback) replace(zones knownZones, checks []service.Check, decisions []service.Decision, err error) ([]service.Decision, error) {
	replaces := func(err error) bool {
		return isAway(err) || errors.Is(err, service.ErrBusy) && !errors.Is(err, service.ErrUndecided) && f.IsOpen()
	}
	if err != nil {
		if !replaces(err) || !slices.ContainsFunc(checks, zones.haveAnswer) {
			return decisions, err
		}
		decisions = slices.Repeat([]service.Decision{{Err: err}}, len(checks))
	}
	for i := range min(len(decisions), len(checks)) {
		if replaces(decisions[i].Err) && zones.haveAnswer(checks[i]) {
			decisions[i] = f.memory.decide(zones, checks[i])
		}
	}
	return decisions, nil
}
