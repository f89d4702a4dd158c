package queue

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"velocityd/service"
)

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

// period is the time of a circuit from one closing to the next. The circuit opens at most once
// in it: from then on the store is known to be away.
type period struct {
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

func newPeriod() *period { return &period{since: time.Now(), opened: make(chan struct{})} }

func (p *period) isOpen() bool {
	select {
	case <-p.opened:
		return true
	default:
		return false
	}
}

func (p *period) open(cause error, hangs bool) {
	p.once.Do(func() {
		p.cause, p.at, p.hangs = cause, time.Now(), hangs
		close(p.opened)
	})
}

// note opens the circuit if the end of a check shows that the store is away. One lost answer proves
// nothing, because a person may have ended its statement; one pause of the store proves nothing either. A
// second one opens the circuit if it comes patience or more after the first, with no answer in between.
func (p *period) note(err error, patience time.Duration) {
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
	case err == nil, errors.Is(err, service.ErrNotFound), errors.Is(err, service.ErrConflict), errors.Is(err, service.ErrStaleKey):
		if p.lost.Load() != 0 { // mostly it is 0, and then nothing is written
			p.lost.Store(0)
		}
	}
}

// isAway says that a check was surely not recorded, and that other checks will meet the same error until
// somebody mends its cause.
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
func (f *Fallback) Watch(ctx context.Context) {
	for {
		p := f.period.Load()
		if !f.awaitOpening(ctx, p) {
			return
		}
		f.options.OnChange(p.cause)
		if !f.awaitClosing(ctx, p) {
			return
		}
		f.period.Store(newPeriod())
		f.options.OnChange(nil)
	}
}

// awaitOpening returns true when the circuit is open, and false when ctx has ended.
func (f *Fallback) awaitOpening(ctx context.Context, p *period) bool {
	pause := f.options.After
	for {
		select {
		case <-ctx.Done():
			return false
		case <-p.opened:
			return true
		case <-time.After(pause):
		}
		pause = f.options.After
		if silence := f.silence(); silence < f.options.After {
			pause -= silence
			continue
		}
		err := f.testSilent(ctx)
		silence := f.silence()
		isStuck := silence >= f.options.StuckAtMost+f.options.After && !f.options.InParts()
		if silence >= f.options.After && (err != nil || isStuck) {
			p.open(fmt.Errorf("%w: it has answered nothing for %s", service.ErrAway, silence.Round(time.Millisecond)), true)
		}
	}
}

// testSilent tests a silent store.
func (f *Fallback) testSilent(ctx context.Context) error {
	if !f.options.InParts() {
		short, cancel := context.WithTimeout(ctx, silentTest)
		defer cancel()
		ctx = short
	}
	return f.options.Probe(ctx)
}

// silence returns how long the store has been silent. It is 0 if no check has an answer without the store.
func (f *Fallback) silence() time.Duration {
	if f.zones.Load() == nil {
		return 0
	}
	return f.options.Silence()
}

// awaitClosing returns true when a test has succeeded that began after the circuit had opened, and
// false when ctx has ended.
func (f *Fallback) awaitClosing(ctx context.Context, p *period) bool {
	pause := time.Duration(0)
	if time.Since(p.since) < calmTime {
		pause = probePause
	}
	for {
		select {
		case <-ctx.Done():
			return false
		case <-time.After(pause):
		}
		if f.options.Probe(ctx) == nil && (!p.hangs || f.options.Silence() <= time.Since(p.at)) {
			return true
		}
		pause = probePause
	}
}
