package server

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"time"

	"velocityd/db"
	"velocityd/service/refresh"
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
	tests  *refresh.Cache[struct{}]
	logger *slog.Logger

	mu         sync.Mutex
	reason     noted[string] // why the last test has failed, or ""
	since      time.Time     // when the service stopped being ready or, if it is, when it became so
	isStopping bool
}

// newReadiness returns a readiness that tests by ask. Callers see the text of its error.
func newReadiness(ask func(ctx context.Context) error, logger *slog.Logger) *readiness {
	r := &readiness{logger: logger, since: time.Now()}
	r.tests = refresh.New(probeTimeout, func(ctx context.Context) (passed struct{}, err error) {
		err = ask(ctx)
		r.note(ctx, err)
		return passed, err
	})
	return r
}

// now returns nil if checks can be decided, and otherwise the reason, which any caller
// may see. It runs a test unless the last result is fresh. A test that has begun goes on
// if its caller leaves, because others may wait for it.
func (r *readiness) now(ctx context.Context) error {
	if r.stopping() {
		return errStopping
	}
	test, err := r.tests.Get(ctx, func(last *refresh.Reading[struct{}]) bool {
		return r.stopping() || time.Since(last.Ended) < freshFor
	})
	switch {
	case r.stopping():
		return errStopping
	case err != nil:
		return db.NewUnreadyError("the database did not answer in time", err)
	}
	return test.Err
}

// stopping returns whether the service is stopping.
func (r *readiness) stopping() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.isStopping
}

// errStopping is the reason of an instance that is stopping.
var errStopping = errors.New("the service is stopping")

// reached returns whether the last test succeeded.
func (r *readiness) reached() bool {
	last := r.tests.Last()
	return last != nil && last.Err == nil
}

// hasFailed returns whether the last test failed.
func (r *readiness) hasFailed() bool {
	last := r.tests.Last()
	return last != nil && last.Err != nil
}

// isReady returns whether the last test succeeded and the service is not stopping.
func (r *readiness) isReady() bool { return r.reached() && !r.stopping() }

// changed returns when the result of the tests last changed.
func (r *readiness) changed() time.Time {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.since
}

// note logs the result of a test if it has changed.
func (r *readiness) note(ctx context.Context, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.isStopping {
		return
	}
	wasReady := r.reason.state == ""
	switch isNew := r.reason.changes(textOf(err)); {
	case !isNew:
	case err == nil:
		r.logger.LogAttrs(ctx, slog.LevelInfo, "ready again",
			slog.Duration("after", time.Since(r.since).Round(time.Millisecond)))
		r.since = time.Now()
	default:
		if wasReady {
			r.since = time.Now()
		}
		attrs := []slog.Attr{slog.String("reason", err.Error())}
		if cause := errors.Unwrap(err); cause != nil {
			attrs = append(attrs, slog.String("error", cause.Error()))
		}
		r.logger.LogAttrs(ctx, slog.LevelWarn, "not ready", attrs...)
	}
}

// stop makes the service not ready for good. No more tests are made.
func (r *readiness) stop() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.isStopping {
		r.isStopping, r.since = true, time.Now()
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
		s.logger.LogAttrs(ctx, slog.LevelWarn, "degraded: checks of the buckets on some shards cannot be decided",
			slog.String("shards", lost))
	}
}
