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
	cause  error         // why it opened; valid once opened is closed, like at
	at     time.Time     // when it opened
	// wasSilent says that the store was silent when the period before ended.
	wasSilent bool
	// lost is when the first check was lost, or met a pause, after which none was answered, as the
	// time since since; 0 if there is none.
	lost atomic.Int64
}

func newPeriod(wasSilent bool) *period {
	return &period{since: time.Now(), opened: make(chan struct{}), wasSilent: wasSilent}
}

func (p *period) isOpen() bool {
	select {
	case <-p.opened:
		return true
	default:
		return false
	}
}

func (p *period) open(cause error) {
	p.once.Do(func() {
		p.cause, p.at = cause, time.Now()
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
		p.open(err)
	case errors.Is(err, ErrUndecided), errors.Is(err, ErrPaused):
		now := int64(time.Since(p.since)) | 1 // not 0
		if first := p.lost.Load(); first == 0 {
			p.lost.CompareAndSwap(0, now)
		} else if time.Duration(now-first) >= patience {
			p.open(err)
		}
	case err == nil, errors.Is(err, ErrNotFound), errors.Is(err, ErrConflict):
		if p.lost.Load() != 0 { // mostly it is 0, and then nothing is written
			p.lost.Store(0)
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
// closes it after the first test that succeeds, unless calls from before are still unanswered. It returns when ctx ends. Without it an open
// circuit stays open. It must not be called twice at a time.
func (f *Fallback) Watch(ctx context.Context) {
	t := &storeTest{probe: f.options.Probe, ended: make(chan testEnd)}
	defer func() {
		if t.isUnderWay {
			_ = t.wait()
		}
	}()
	for {
		p := f.period.Load()
		if !f.awaitOpening(ctx, p, t) {
			return
		}
		f.options.OnChange(p.cause)
		if !f.awaitClosing(ctx, p, t) {
			return
		}
		f.period.Store(newPeriod(errors.Is(p.cause, errSilent)))
		f.options.OnChange(nil)
	}
}

// testEnd is why a test failed, or nil in it.
type testEnd struct{ err error }

// storeTest tests the store, once at a time. It is used by one goroutine.
type storeTest struct {
	probe      func(context.Context) error
	ended      chan testEnd // of the test that is under way; who takes it calls done
	isUnderWay bool
}

// begin begins a test unless one is under way.
func (t *storeTest) begin(ctx context.Context) {
	if t.isUnderWay {
		return
	}
	t.isUnderWay = true
	go func() { t.ended <- testEnd{t.probe(ctx)} }()
}

func (t *storeTest) done() { t.isUnderWay = false }

// wait waits for the end of the test that is under way, and returns why it failed.
func (t *storeTest) wait() error {
	end := <-t.ended
	t.done()
	return end.err
}

// awaitOpening returns true when the circuit is open, and false when ctx has ended. A store that
// has answered nobody for half of After is tested. If it has not passed by the end of After, it is
// away. So calls that all wait for one stuck bucket do not open the circuit, and nor does a process
// that was stopped itself.
func (f *Fallback) awaitOpening(ctx context.Context, p *period, t *storeTest) bool {
	half := f.options.After / 2
	var passed time.Time // when the last test succeeded
	isTested := false    // in this silence
	due := time.Now().Add(half)
	for {
		timer := time.NewTimer(time.Until(due))
		select {
		case <-ctx.Done():
			timer.Stop()
			return false
		case <-p.opened:
			timer.Stop()
			return true
		case end := <-t.ended:
			timer.Stop()
			t.done()
			if end.err == nil {
				passed = time.Now()
			}
			continue
		case <-timer.C:
		}
		now := time.Now()
		silence := f.silence(p, passed)
		switch wasStopped := now.Sub(due) > half; {
		case silence < half:
			isTested, due = false, now.Add(half-silence)
		case !isTested, silence < f.options.After, wasStopped:
			t.begin(ctx)
			isTested, due = !wasStopped, now.Add(max(half, f.options.After-silence))
		default:
			p.open(fmt.Errorf("%w: it %w for %s", ErrAway, errSilent, silence.Round(time.Millisecond)))
			return true
		}
	}
}

// errSilent is the cause of a circuit that opened because nothing was answered.
var errSilent = errors.New("has answered nothing")

// silence returns for how long the store has been asked and has answered neither that nor a test.
// After StuckAtMost no test counts: a store that hangs in its commits passes each, as a test records
// nothing. If it has just been silent, none counts at all.
func (f *Fallback) silence(p *period, passed time.Time) time.Duration {
	if f.zones.Load() == nil {
		return 0
	}
	silence := f.options.Silence()
	if silence >= f.options.StuckAtMost || p.wasSilent && time.Since(p.since) < calmTime {
		return silence
	}
	return min(silence, time.Since(passed))
}

// awaitClosing returns true when a test has succeeded, and false when ctx has ended. While none of
// the calls is answered that were under way when the circuit opened, a test proves nothing.
func (f *Fallback) awaitClosing(ctx context.Context, p *period, t *storeTest) bool {
	pause := time.Duration(0)
	if time.Since(p.since) < calmTime {
		pause = probePause
	}
	for {
		timer := time.NewTimer(pause)
		select {
		case <-ctx.Done():
			timer.Stop()
			return false
		case <-t.ended: // it began before the circuit opened, and tells nothing
			timer.Stop()
			t.done()
			continue
		case <-timer.C:
		}
		t.begin(ctx)
		if t.wait() == nil && f.options.Silence() <= time.Since(p.at) {
			return true
		}
		pause = probePause
	}
}
