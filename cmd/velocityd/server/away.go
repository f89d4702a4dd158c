package server

import (
	"context"
	"log/slog"
	"time"

	"velocityd/db"
	"velocityd/service"
	"velocityd/service/queue"
	"velocityd/telemetry"
)

// wireChecks connects the parts that decide checks: the database and, while it is away, the zones that
// are remembered. It reads the zones of file, and does not connect to the database.
func (s *Instance) wireChecks(file *stateFile) {
	o := queue.CoalescerOptions{IsStraight: true}
	if s.options.Coalescer != nil {
		o = *s.options.Coalescer
	}
	o.ShardOf, o.Observe = s.store.ShardOf, s.coalescerObserver()
	o.Circuit = queue.CircuitOptions{
		// Engines look at lock waits once a second.
		After: s.options.DegradedAfter, StuckAtMost: s.options.Database.LockWait + time.Second,
		Probe: s.proveChecks, OnChange: s.logAway,
	}
	s.checks = queue.NewCoalescer(s.store, o)
	watched := telemetry.Sources{Pools: s.store.Pools, Reached: s.readiness.reached, Ready: s.readiness.isReady}
	if !o.IsStraight {
		watched.Lanes = s.checks.Use
	}
	s.metrics.Watch(watched)
	s.zones = &zoneMemory{reader: s.store.Records, file: file, learn: func(zones []service.Zone) {
		s.limiter.Learn(zones)
		s.checks.Circuit.Remember(zones)
	}}
	s.limiter = service.NewLimiter(s.checks, service.LimiterOptions{
		Zones: s.zones, Keys: s.keys, Timeout: s.options.CheckTimeout, Observe: s.metrics.CountChecks,
	})
	s.zones.recall()
}

// ready returns why checks are not decided now, or nil.
func (s *Instance) ready(ctx context.Context) error {
	if err := s.readiness.now(ctx); err != nil {
		return err
	}
	if s.checks.Circuit.IsOpen() {
		return db.NewUnreadyError("the database was away, and the test that lets it decide again has not succeeded yet", nil)
	}
	return nil
}

// readySince returns since when the instance is ready, or not.
func (s *Instance) readySince() time.Time {
	tested, opened := s.readiness.changed(), s.checks.Circuit.ChangedAt()
	switch isReady := s.readiness.isReady(); {
	case s.checks.Circuit.IsOpen() && (isReady || opened.Before(tested)), isReady && opened.After(tested):
		return opened
	}
	return tested
}

// answers returns why checks are not answered now, be it by on_failure of their zones, or nil.
func (s *Instance) answers(ctx context.Context) error {
	if !s.checks.Circuit.HasAnswers() {
		return s.ready(ctx)
	}
	if s.readiness.stopping() {
		return errStopping
	}
	return nil
}

// proveChecks tests whether checks can be decided. It asks for less than /readyz does: a fault
// that concerns no check must not keep the database from deciding.
func (s *Instance) proveChecks(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	return s.probe.ReadyForChecks(ctx)
}

// logAway logs that checks are answered without the database for a cause or, if that is nil,
// that they are not any more.
func (s *Instance) logAway(cause error) {
	if cause == nil {
		s.logger.LogAttrs(context.Background(), slog.LevelInfo, "the database is back: it decides all checks")
		return
	}
	s.logger.LogAttrs(context.Background(), slog.LevelWarn,
		"the database is away: checks are answered by on_failure of their zones",
		slog.String("error", cause.Error()))
}
