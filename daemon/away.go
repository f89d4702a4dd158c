package daemon

import (
	"context"
	"log/slog"
	"time"

	"velocityd/db"
	"velocityd/service"
	"velocityd/service/queue"
)

// front is what decides the checks of an instance: the database or, while it is away, what
// is remembered of the zones.
type front struct {
	limiter  *service.Limiter
	fallback *queue.Fallback
	zones    *zoneMemory
	hear     func()                      // tells that the database has said something in the midst of a call
	end      func(context.Context) error // must be called after the last check
}

// newFront returns the front of an instance, which knows the zones that the state folder
// holds, if there is one. It does not connect to the database.
func (s *Instance) newFront() *front {
	checks, end := s.newCheckStore()
	options := queue.FallbackOptions{
		After: s.options.DegradedAfter, StuckAtMost: s.options.Database.LockWait + time.Second, // engines look at lock waits once a second
		Probe: s.proveChecks, OnChange: s.logAway,
		InParts: func() bool { _, shards := s.store.ShardOf(service.Bucket{}); return shards > 1 },
	}
	f := &front{hear: func() {}, end: end}
	if coalescer, ok := checks.(*queue.Coalescer); ok {
		options.Silence, f.hear = coalescer.Silence, coalescer.Hear
	}
	f.fallback = queue.NewFallback(checks, options)
	f.zones = newZoneMemory(s.store, s.state, func(zones []service.Zone) {
		f.limiter.Learn(zones)
		f.fallback.Remember(zones)
	})
	f.limiter = service.NewHidingLimiter(f.fallback, f.zones, s.keys, s.options.CheckTimeout)
	f.zones.recall()
	return f
}

// ready returns why checks are not decided now, or nil.
func (s *Instance) ready(ctx context.Context) error {
	if err := s.readiness.now(ctx); err != nil {
		return err
	}
	if s.front.fallback.IsOpen() {
		return db.NewUnreadyError("the database was away, and the test that lets it decide again has not succeeded yet", nil)
	}
	return nil
}

// answers returns why checks are not answered now, be it by on_failure of their zones, or nil.
func (s *Instance) answers(ctx context.Context) error {
	if !s.front.fallback.HasAnswers() {
		return s.ready(ctx)
	}
	if _, isStopping, _ := s.readiness.last(); isStopping {
		return errStopping
	}
	return nil
}

// proveChecks tests whether checks can be decided. It asks for less than /readyz does: what no
// check needs must not keep the database from deciding.
func (s *Instance) proveChecks(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	return s.probe.ProveChecks(ctx)
}

// logAway logs that checks are answered without the database for a cause or, if that is nil,
// that they are not any more.
func (s *Instance) logAway(cause error) {
	if cause == nil {
		s.logger.LogAttrs(context.Background(), slog.LevelInfo, "the database is back: it decides all checks")
		return
	}
	s.logger.LogAttrs(context.Background(), slog.LevelWarn, "the database is away: checks are answered by on_failure of their zones",
		slog.String("error", cause.Error()))
}
