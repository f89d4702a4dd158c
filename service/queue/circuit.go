package queue

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"velocityd/service"
)

// DefaultDegradedAfter bounds the time that a check with an answer without the store waits for a silent one.
const DefaultDegradedAfter = 250 * time.Millisecond

// CircuitOptions configure the Circuit of a Coalescer. Probe is required for Watch.
type CircuitOptions struct {
	// After bounds the silence of a store before it is tested, a pause of the store, and the time to reach
	// its engine. 0 is DefaultDegradedAfter.
	After time.Duration
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

// Circuit knows whether the store behind a Coalescer is away, and answers the checks of some zones
// meanwhile, by the zones' OnFailure as they were last seen.
//
// A check has an answer without the store if none of its zones has OnFailureError and all of
// them are known. Where a zone has OnFailureBlock, its bucket has no room. Where it has
// OnFailureAllow, Decide decides by the memory of this instance: the attempts that the instance has
// allowed by itself, and the block or override of the store's last answer. So n instances allow at most n times the
// rate in a window while the store is away. All other checks are asked as they are, and their errors are
// those of the store.
//
// An answer without the store has Decision.Degraded. It is given only if it is sure that the
// check was not recorded: instead of ErrAway, ErrUnfit and ErrForbidden and, while the circuit
// is open, instead of any ErrBusy. It is never given instead of ErrUndecided. While the circuit
// is closed, overload and held buckets are ErrBusy.
//
// The circuit opens after the first check that the store could not decide for such a reason,
// after two lost answers without an answer in between, and when the store is silent: see Watch. Checks that
// wait in a queue then leave it. Those that were sent before stay: only the store's
// answer tells whether they were recorded. Watch closes the circuit again.
type Circuit struct {
	options CircuitOptions
	// silence returns the time since the store last answered while it is asked. Every word of the engine
	// ends it, even a lock wait that timed out.
	silence func() time.Duration
	// inParts says that the store decides in parts, such as the shards of a database. One part may be
	// silent while the others answer, so a silence proves nothing unless a test fails in it.
	inParts func() bool
	zones   atomic.Pointer[knownZones] // nil if no zone has an answer
	period  atomic.Pointer[closedPeriod]
	memory  *memory
}

// newCircuit returns a circuit that knows no zone yet and is closed.
func newCircuit(options CircuitOptions, silence func() time.Duration, inParts func() bool) *Circuit {
	options.After = cmp.Or(options.After, DefaultDegradedAfter)
	options.StuckAtMost = cmp.Or(options.StuckAtMost, 2*time.Second)
	if options.OnChange == nil {
		options.OnChange = func(error) {}
	}
	c := &Circuit{options: options, silence: silence, inParts: inParts, memory: newMemory(mostRemembered)}
	c.period.Store(newPeriod())
	return c
}

// IsOpen reports whether the circuit is open: the store is known to be away.
func (c *Circuit) IsOpen() bool { return c.period.Load().isOpen() }

// ChangedAt returns when the circuit opened or, if it is closed, when it closed.
func (c *Circuit) ChangedAt() time.Time {
	p := c.period.Load()
	if p.isOpen() {
		return p.at
	}
	return p.since
}

// Open opens the circuit, unless no zone has an answer. It is for a service that has found its
// store away before the first check.
func (c *Circuit) Open(cause error) {
	if c.HasAnswers() {
		c.period.Load().open(cause, false)
	}
}

const (
	// probePause is the time between two tests of a store that is away.
	probePause = time.Second
	// A circuit that opens within calmTime of its last closing waits probePause for its first test. A store
	// that passes every test and fails every check would otherwise be tested without end.
	calmTime = 10 * time.Second
	// silentTest bounds a test of a silent store. A store in parts has no such bound, because its test asks
	// one part after another.
	silentTest = time.Second
)

// closedPeriod is the time of a circuit from one closing to the next. The circuit opens at most once
// in it: from then on the store is known to be away.
type closedPeriod struct {
	since  time.Time
	once   sync.Once
	opened chan struct{} // closed when the circuit opens
	// These are valid once opened is closed.
	cause error     // why it opened
	at    time.Time // when it opened
	hangs bool      // it opened because answers did not come
	// lost is the time since since of the first lost answer or pause after the last answer; 0: there is
	// none.
	lost atomic.Int64
}

func newPeriod() *closedPeriod { return &closedPeriod{since: time.Now(), opened: make(chan struct{})} }

func (p *closedPeriod) isOpen() bool {
	select {
	case <-p.opened:
		return true
	default:
		return false
	}
}

func (p *closedPeriod) open(cause error, hangs bool) {
	p.once.Do(func() {
		p.cause, p.at, p.hangs = cause, time.Now(), hangs
		close(p.opened)
	})
}

// note opens the circuit if the end of a check shows that the store is away. One lost answer proves
// nothing, because a person may have ended its statement; one pause of the store proves nothing either. A
// second one opens the circuit if it comes patience or more after the first, with no answer in between.
func (p *closedPeriod) note(err error, patience time.Duration) {
	switch {
	case isAway(err):
		p.open(err, false)
	case errors.Is(err, service.ErrUndecided), errors.Is(err, service.ErrPaused):
		now := int64(time.Since(p.since)) | 1 // not 0
		if first := p.lost.Load(); first == 0 {
			p.lost.CompareAndSwap(0, now)
		} else if time.Duration(now-first) >= patience {
			p.open(err, errors.Is(err, service.ErrUndecided))
		}
	case err == nil, errors.Is(err, service.ErrNotFound), errors.Is(err, service.ErrConflict),
		errors.Is(err, service.ErrStaleKey):
		if p.lost.Load() != 0 { // mostly it is 0, and then nothing is written
			p.lost.Store(0)
		}
	}
}

// isAway says that a check was surely not recorded, and that other checks will meet the same error until
// its cause is mended.
func isAway(err error) bool {
	return err != nil && !errors.Is(err, service.ErrUndecided) &&
		(errors.Is(err, service.ErrAway) || errors.Is(err, service.ErrUnfit) || errors.Is(err, service.ErrForbidden))
}

// Watch opens the circuit if the store is silent, tests the store while the circuit is open, and
// closes it after the first test that succeeds. It returns when ctx ends. Without it an open circuit
// stays open. It must not be called twice at a time.
//
// Silence is the time since the store's last answer to any call, while calls are under way. It tells
// three things:
//   - A store that is silent for After, and fails a test, is away. A test that passes late proves nothing.
//   - A store that says nothing for longer than any stuck bucket explains is away though it passes
//     tests: a test records nothing, so it cannot see a hanging COMMIT.
//   - A circuit that silence has opened closes when a test passes and the silence has ended.
func (c *Circuit) Watch(ctx context.Context) {
	for {
		p := c.period.Load()
		if !c.awaitOpening(ctx, p) {
			return
		}
		c.options.OnChange(p.cause)
		if !c.awaitClosing(ctx, p) {
			return
		}
		c.period.Store(newPeriod())
		c.options.OnChange(nil)
	}
}

// awaitOpening returns true when the circuit is open, and false when ctx has ended.
func (c *Circuit) awaitOpening(ctx context.Context, p *closedPeriod) bool {
	pause := c.options.After
	for {
		select {
		case <-ctx.Done():
			return false
		case <-p.opened:
			return true
		case <-time.After(pause):
		}
		pause = c.options.After
		if silence := c.silentFor(); silence < c.options.After {
			pause -= silence
			continue
		}
		err := c.testSilent(ctx)
		silence := c.silentFor()
		isStuck := silence >= c.options.StuckAtMost+c.options.After && !c.inParts()
		if silence >= c.options.After && (err != nil || isStuck) {
			p.open(fmt.Errorf("%w: it has answered nothing for %s", service.ErrAway, silence.Round(time.Millisecond)), true)
		}
	}
}

// testSilent tests a silent store.
func (c *Circuit) testSilent(ctx context.Context) error {
	if !c.inParts() {
		short, cancel := context.WithTimeout(ctx, silentTest)
		defer cancel()
		ctx = short
	}
	return c.options.Probe(ctx)
}

// silentFor returns how long the store has been silent. It is 0 if no check has an answer without the store.
func (c *Circuit) silentFor() time.Duration {
	if !c.HasAnswers() {
		return 0
	}
	return c.silence()
}

// awaitClosing returns true when a test has succeeded that began after the circuit had opened, and
// false when ctx has ended.
func (c *Circuit) awaitClosing(ctx context.Context, p *closedPeriod) bool {
	isAtOnce := time.Since(p.since) >= calmTime
	for ctx.Err() == nil {
		if !isAtOnce {
			select {
			case <-ctx.Done():
				return false
			case <-time.After(probePause):
			}
		}
		isAtOnce = false
		if c.options.Probe(ctx) == nil && (!p.hangs || c.silence() <= time.Since(p.at)) {
			return true
		}
	}
	return false
}
