package service

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// probePause is the time between two tests of a store that is away.
	probePause = time.Second
	// calmTime is how long a circuit must have been closed for the first test to be made as soon
	// as it opens. Otherwise a store that passes every test and fails every check would be tested
	// without end.
	calmTime = 10 * time.Second
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
	// hung says that it opened for that reason in the period before, and that none came afterwards.
	hung bool
	// lost is when the first check was lost, or met a pause, after which none was answered, as the
	// time since since; 0 if there is none.
	lost atomic.Int64
	// answered says that an answer came after the circuit had opened.
	answered atomic.Bool
}

func newPeriod(hung bool) *period {
	return &period{since: time.Now(), opened: make(chan struct{}), hung: hung}
}

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

// note concludes from how a check ended whether the store is away. One check whose answer is
// lost proves nothing: a person may have ended its statement. Nor does one that a store has refused
// because it pauses. So the circuit opens if a second one ends like that, patience or more after
// the first, and none was answered in between.
func (p *period) note(err error, patience time.Duration) {
	switch {
	case isAway(err):
		p.open(err, false)
	case errors.Is(err, ErrUndecided), errors.Is(err, ErrPaused):
		now := int64(time.Since(p.since)) | 1 // not 0
		if first := p.lost.Load(); first == 0 {
			p.lost.CompareAndSwap(0, now)
		} else if time.Duration(now-first) >= patience {
			p.open(err, errors.Is(err, ErrUndecided))
		}
	case err == nil, errors.Is(err, ErrNotFound), errors.Is(err, ErrConflict), errors.Is(err, ErrStaleKey):
		if p.lost.Load() != 0 { // mostly it is 0, and then nothing is written
			p.lost.Store(0)
		}
		if p.isOpen() {
			p.answered.Store(true)
		}
	}
}

// isAway says that a check was surely not recorded, for a reason that other checks will meet,
// too, until somebody mends it.
func isAway(err error) bool {
	return err != nil && !errors.Is(err, ErrUndecided) &&
		(errors.Is(err, ErrAway) || errors.Is(err, ErrUnfit) || errors.Is(err, ErrForbidden))
}

// Watch opens the circuit if the store is silent, tests the store while the circuit is open, and
// closes it after the first test that succeeds, unless all calls from before are still unanswered.
// It returns when ctx ends. Without it an open circuit stays open. It must not be called twice at a
// time.
func (f *Fallback) Watch(ctx context.Context) {
	t := &storeTest{probe: f.options.Probe, ended: make(chan struct{})}
	defer t.finish()
	for {
		p := f.period.Load()
		if !f.awaitOpening(ctx, p, t) {
			return
		}
		f.options.OnChange(p.cause)
		if !f.awaitClosing(ctx, p, t) {
			return
		}
		f.period.Store(newPeriod(p.hangs && !p.answered.Load()))
		f.options.OnChange(nil)
	}
}

// storeTest tests the store, once at a time. It is used by one goroutine.
type storeTest struct {
	probe      func(context.Context) error
	ended      chan struct{} // the test under way has ended
	isUnderWay bool          // until somebody has heard that
	err        error         // of the last test that has ended
}

// begin begins a test unless one is under way.
func (t *storeTest) begin(ctx context.Context) {
	if t.isUnderWay {
		return
	}
	t.isUnderWay = true
	go func() {
		t.err = t.probe(ctx)
		t.ended <- struct{}{}
	}()
}

// finish waits for the end of the test that is under way, if there is one.
func (t *storeTest) finish() {
	if t.isUnderWay {
		<-t.ended
		t.isUnderWay = false
	}
}

// awaitOpening returns true when the circuit is open, and false when ctx has ended. A store that
// has answered nobody for half of After is tested. If it has not passed by the end of After, it is
// away. So calls that all wait for one stuck bucket do not open the circuit, and nor does a process
// that was stopped itself. Of a store in parts the end of the test is awaited, which one part can delay.
func (f *Fallback) awaitOpening(ctx context.Context, p *period, t *storeTest) bool {
	half := f.options.After / 2
	var passed time.Time // when the last test succeeded
	isTested := false    // in this silence
	due := time.Now().Add(half)
	for {
		select {
		case <-ctx.Done():
			return false
		case <-p.opened:
			return true
		case <-t.ended:
			t.isUnderWay = false
			if t.err == nil {
				passed = time.Now()
			}
			continue
		case <-time.After(time.Until(due)):
		}
		now := time.Now()
		silence := f.silence(p, passed)
		switch wasStopped := now.Sub(due) > half; {
		case silence < half:
			isTested, due = false, now.Add(half-silence)
		case !isTested, silence < f.options.After, wasStopped:
			t.begin(ctx)
			isTested, due = !wasStopped, now.Add(max(half, f.options.After-silence))
		case f.options.InParts() && (t.isUnderWay || t.err == nil):
			due = now.Add(half)
		default:
			p.open(fmt.Errorf("%w: it has answered nothing for %s", ErrAway, silence.Round(time.Millisecond)), true)
			return true
		}
	}
}

// silence returns for how long the store has been asked and has answered neither that nor a test.
// A silence longer than any stuck bucket explains is not ended by a test: a store that hangs in its
// commits passes each, as a test records nothing. Nor is a short one, if the store has just hung. In
// a store in parts it may be one part that hangs, so there each test counts that passes.
func (f *Fallback) silence(p *period, passed time.Time) time.Duration {
	if f.zones.Load() == nil {
		return 0
	}
	silence := f.options.Silence()
	if !f.options.InParts() && (silence >= f.options.StuckAtMost+f.options.After || p.hung && time.Since(p.since) < calmTime) {
		return silence
	}
	return min(silence, time.Since(passed))
}

// awaitClosing returns true when a test has succeeded that began after the circuit had opened, and
// false when ctx has ended. If the store hangs, a test proves nothing as long as none of the calls
// is answered that are under way since then.
func (f *Fallback) awaitClosing(ctx context.Context, p *period, t *storeTest) bool {
	t.finish()
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
