package daemon

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"time"

	"velocityd/db"
)

const (
	// probeTimeout bounds one test whether checks can be decided.
	probeTimeout = 2 * time.Second
	// freshFor is how long the result of a test is answered to all callers: any number
	// of load balancers costs the database one test a second.
	freshFor = time.Second
	// lookPause is the mean time between two tests that the service makes by itself.
	lookPause = 3 * time.Second
)

// readiness knows whether checks can be decided now. It tests this, one test at a time,
// and logs each change of the result. The zero value cannot be used.
type readiness struct {
	ask    func(ctx context.Context) error // the test; callers see the text of its error
	logger *slog.Logger
	turn   chan struct{} // holds one element while a test runs

	mu         sync.Mutex
	found      error         // the result of the last test
	reason     noted[string] // why it has failed, or ""
	foundAt    time.Time     // when it ended; zero before the first test
	since      time.Time     // when the service stopped being ready
	isStopping bool
}

func newReadiness(ask func(ctx context.Context) error, logger *slog.Logger) *readiness {
	return &readiness{ask: ask, logger: logger, turn: make(chan struct{}, 1)}
}

// now returns nil if checks can be decided, and otherwise the reason, which any caller
// may see. It runs a test unless the last result is fresh. A test that has begun goes on
// if its caller leaves, because others may wait for it.
func (r *readiness) now(ctx context.Context) error {
	if fresh, err := r.known(); fresh {
		return err
	}
	select {
	case r.turn <- struct{}{}:
		defer func() { <-r.turn }()
	case <-ctx.Done():
		return db.NewUnreadyError("the database did not answer in time", ctx.Err())
	}
	if fresh, err := r.known(); fresh {
		return err // the result of the test that was running
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), probeTimeout)
	defer cancel()
	return r.note(ctx, r.ask(ctx))
}

// known returns the result of the last test, and whether it is fresh.
func (r *readiness) known() (fresh bool, err error) {
	tested, isStopping, err := r.last()
	if isStopping {
		return true, errStopping
	}
	return !tested.IsZero() && time.Since(tested) < freshFor, err
}

// last returns when the last test ended, which is zero before the first one, whether the
// service is stopping, and the result of that test. It runs no test.
func (r *readiness) last() (tested time.Time, isStopping bool, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.foundAt, r.isStopping, r.found
}

// errStopping is the reason of an instance that is stopping.
var errStopping = errors.New("the service is stopping")

// reached returns whether the last test succeeded.
func (r *readiness) reached() bool {
	tested, _, err := r.last()
	return !tested.IsZero() && err == nil
}

// hasFailed returns whether the last test failed.
func (r *readiness) hasFailed() bool {
	_, _, err := r.last()
	return err != nil
}

// isReady returns whether the last test succeeded and the service is not stopping.
func (r *readiness) isReady() bool {
	_, isStopping, _ := r.last()
	return r.reached() && !isStopping
}

// note keeps the result of a test, logs it if it has changed, and returns the result
// for the caller.
func (r *readiness) note(ctx context.Context, err error) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.isStopping {
		return errStopping
	}
	wasReady, now := r.found == nil, time.Now()
	r.found, r.foundAt = err, now
	switch isNew := r.reason.changes(textOf(err)); {
	case !isNew:
	case err == nil:
		r.logger.LogAttrs(ctx, slog.LevelInfo, "ready again", slog.Duration("after", now.Sub(r.since).Round(time.Millisecond)))
	default:
		if wasReady {
			r.since = now
		}
		attrs := []slog.Attr{slog.String("reason", err.Error())}
		if cause := errors.Unwrap(err); cause != nil {
			attrs = append(attrs, slog.String("error", cause.Error()))
		}
		r.logger.LogAttrs(ctx, slog.LevelWarn, "not ready", attrs...)
	}
	return err
}

// stop makes the service not ready for good. No more tests are made.
func (r *readiness) stop() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.isStopping {
		r.isStopping = true
		r.logger.LogAttrs(context.Background(), slog.LevelInfo, "not ready", slog.String("reason", errStopping.Error()))
	}
}

// watch repeats the test until ctx ends. It returns after the running test.
func (r *readiness) watch(ctx context.Context) {
	look := func(bool) { _ = r.now(ctx) } // which logs the result
	look(true)
	poll[any](ctx, about(lookPause), nil, look)
}

// noteLostShards logs which shards are lost while others decide, if that has changed. The instance stays
// ready then: it answers checks of the other shards' buckets, and no other instance would do better.
func (s *Instance) noteLostShards(ctx context.Context) {
	switch lost := strings.Join(s.probe.Lost(), ", "); {
	case !s.lostShards.changes(lost):
	case lost == "":
		s.logger.LogAttrs(ctx, slog.LevelInfo, "all shards decide again")
	default:
		s.logger.LogAttrs(ctx, slog.LevelWarn, "degraded: checks of the buckets on some shards cannot be decided", slog.String("shards", lost))
	}
}
