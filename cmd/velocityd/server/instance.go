package server

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os/signal"
	"sync"
	"sync/atomic"
	"time"

	"velocityd/cmd/velocityd/doctor"
	"velocityd/db"
	"velocityd/db/session"
	"velocityd/handlers"
	"velocityd/service"
	"velocityd/service/access"
	"velocityd/service/backtest"
	"velocityd/service/queue"
	"velocityd/telemetry"
)

// Instance is one running service.
type Instance struct {
	options Options
	store   *db.Store
	keys    *service.Keyring
	// probe has a separate connection. If all connections of store are at work, the
	// instance is busy, and load balancers must not believe that it is broken.
	probe     *db.Probe
	logger    *slog.Logger
	readiness *readiness
	metrics   *telemetry.Metrics
	tracing   *telemetry.Tracing // nil: there are no traces
	draining  atomic.Bool

	backtests *backtest.Runner
	limiter   *service.Limiter
	checks    *queue.Coalescer // must be closed after the last check
	zones     *zoneMemory

	// credentials knows callers by their credentials, if they must prove their identity, as
	// requiresAuth says.
	credentials   *access.Cache
	requiresAuth  atomic.Bool
	state         []*stateFile
	lostShards    noted[string] // at the last test, separated by commas
	otherLoggedAt atomic.Int64  // Unix time of the last log line of another database
}

// New returns an instance that has not connected to anything yet. Its errors are those of
// settings that are wrong.
func New(o Options) (*Instance, error) {
	if o.Tracing != nil {
		o.Logger = slog.New(telemetry.LogHandler(o.Logger.Handler()))
	}
	s := &Instance{options: o, keys: o.Keys, logger: o.Logger, metrics: o.Metrics, tracing: o.Tracing}
	o.Database.Observe = s.noteEvent
	store, err := db.Open(o.Database)
	if err != nil {
		return nil, err
	}
	s.store, s.probe = store, store.Probe()
	s.backtests = backtest.NewRunner(store.Replays(), store.Records, backtest.JobTime, func(fault error) {
		s.logger.LogAttrs(context.Background(), slog.LevelWarn, "a back-test failed", slog.String("error", fault.Error()))
	})
	s.beginMetricsOfRetention()
	s.readiness = newReadiness(func(ctx context.Context) error {
		err := doctor.Ready(ctx, doctor.Target{Probe: s.probe, Store: store, Keys: s.keys.Keys()})
		if err == nil {
			s.noteLostShards(ctx)
		}
		if err != nil || !s.requiresAuth.Load() {
			return err
		}
		return s.probe.ReadyForCredentials(ctx)
	}, s.logger)
	return s, s.loadState()
}

// loadState reads the state folder, if there is one, and makes the parts that answer from it.
func (s *Instance) loadState() error {
	dir := s.options.StateDir
	if dir != "" {
		if err := openState(dir); err != nil {
			return fmt.Errorf("%w (--state-dir names another folder)", err)
		}
	}
	zones, callers := newStateFile(dir, zonesFile, "the zones", s.logger),
		newStateFile(dir, credentialsFile, "the callers", s.logger)
	s.state = []*stateFile{zones, callers}
	s.wireChecks(zones)
	s.credentials = s.newCredentials(callers)
	return nil
}

// verify connects to the database and verifies its schema. Its errors are those of
// doctor.VerifySchema.
func (s *Instance) verify(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, connectTimeout)
	defer cancel()
	_, err := doctor.VerifySchema(ctx, s.probe)
	return err
}

// closeDatabase closes the connections to the database. Its errors do not matter:
// every decision was committed before it was answered.
func (s *Instance) closeDatabase() {
	s.credentials.Close()
	_ = s.store.Close()
}

// Serve answers on the listeners, which it closes, until ctx ends or a fault occurs. When
// it returns, every request has been answered and the connections to the database are
// closed. It returns nil if ctx has ended and everything ended in time.
func (s *Instance) Serve(ctx context.Context, l *Listeners) error {
	defer s.closeDatabase()
	defer signal.Stop(l.hangups)
	err := s.verify(ctx)
	if err == nil {
		err = s.requireCredential(ctx, l.ExposedAddr())
	}
	switch {
	case ctx.Err() != nil:
		return l.Close()
	case err != nil && !errors.Is(err, service.ErrBusy):
		return errors.Join(err, l.Close())
	}
	if err != nil {
		s.checks.Circuit.Open(err) // checks are answered without the database from the first one on
	} else {
		s.loadZones(ctx)
	}
	servers, fault := s.newServers(ctx, l)
	if fault != nil {
		return errors.Join(fault, l.Close())
	}
	faults := make(chan error, len(servers)+1)
	report := func(err error) {
		if err != nil {
			faults <- err
		}
	}
	running, stop := context.WithCancel(ctx)
	answering, endAnswers := context.WithCancel(context.WithoutCancel(ctx)) // until the last request is answered
	defer endAnswers()
	var background sync.WaitGroup
	background.Go(func() { s.checks.Circuit.Watch(answering) })
	background.Go(func() { s.zones.keep(running) })
	for _, file := range s.state {
		background.Go(func() { file.keep(answering) })
	}
	if s.requiresAuth.Load() {
		background.Go(func() { s.credentials.Keep(running) })
	}
	for _, d := range servers {
		background.Go(func() { report(d.server.Serve(d.listener)) })
	}
	s.logAddresses(ctx, l)
	background.Go(func() { report(s.watchDatabase(running, err)) })
	if l.certificates != nil {
		background.Go(func() { l.certificates.Watch(running, s.logger, l.hangups) })
	}
	if gates := s.options.Gates; gates != nil {
		gates.observe = s.metrics.NoteGates
		background.Go(func() { gates.follow(running, s.logger) })
	}
	background.Go(func() { s.metrics.RunCensus(running, s.store.Records.Census) })
	background.Go(func() { (&keyFolder{path: s.options.KeyFolder, ring: s.keys, logger: s.logger}).follow(running) })
	if s.options.Retention {
		background.Go(func() { s.retain(running) })
		background.Go(func() { s.makeEvents(running) })
		if s.options.SendEvent != nil {
			background.Go(func() { s.sendEvents(running) })
		}
	}
	select {
	case <-ctx.Done():
	case fault = <-faults:
	}
	stop()
	if fault == nil {
		s.drain(ctx)
	}
	fault = errors.Join(fault, s.shutdown(servers))
	endAnswers()
	background.Wait()
	s.endTracing()
	s.logger.LogAttrs(ctx, slog.LevelInfo, "stopped")
	return fault
}

// logAddresses logs where the instance answers, and with which certificate, and tells Options.Listening.
func (s *Instance) logAddresses(ctx context.Context, l *Listeners) {
	if l.certificates != nil {
		l.certificates.logInForce(ctx, s.logger)
	}
	if l.admin != nil {
		s.logger.LogAttrs(ctx, slog.LevelInfo, "listening for administration",
			slog.String("address", l.admin.Addr().String()))
	}
	if l.grpc != nil {
		s.logger.LogAttrs(ctx, slog.LevelInfo, "listening for Envoy", slog.String("address", l.grpc.Addr().String()))
	}
	s.logger.LogAttrs(ctx, slog.LevelInfo, "listening", slog.String("address", l.main.Addr().String()))
	if s.options.Listening != nil {
		s.options.Listening(ctx)
	}
}

// watchDatabase waits for the database if away, the error of verify, is not nil. Then it tests
// every few seconds whether checks can be decided, until ctx ends. Its errors are those
// of awaitDatabase.
func (s *Instance) watchDatabase(ctx context.Context, away error) error {
	if away != nil {
		if err := s.awaitDatabase(ctx, away); err != nil || ctx.Err() != nil {
			return err
		}
		s.loadZones(ctx)
	}
	s.readiness.watch(ctx)
	return nil
}

// loadZones reads the zones, when the database has been reached. It logs a warning if there is no
// zone, or if the checks of one cannot be decided.
func (s *Instance) loadZones(ctx context.Context) {
	zones, err := s.zones.refresh(ctx)
	if err != nil {
		return // readiness reports it
	}
	if len(zones) == 0 {
		s.logger.LogAttrs(ctx, slog.LevelWarn, "there are no zones, so every check is answered with 404",
			slog.String("make_one_by", "velocityd zone set 1 --rate 5 --window 60"))
	}
	s.warnOfMissingKeys(ctx, zones)
}

// awaitDatabase tries to reach the database until it succeeds or ctx ends, and returns
// nil. It returns an error for a fault that waiting does not mend.
func (s *Instance) awaitDatabase(ctx context.Context, err error) error {
	s.logger.LogAttrs(ctx, slog.LevelWarn, "waiting for the database, which is away", slog.String("error", err.Error()))
	tick := time.NewTicker(reconnectPause)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		switch err := s.verify(ctx); {
		case err == nil:
			s.logger.LogAttrs(ctx, slog.LevelInfo, "database reached")
			return nil
		case !errors.Is(err, service.ErrBusy) && ctx.Err() == nil:
			return err
		}
	}
}

func (s *Instance) handlerOptions(ctx context.Context, l *Listeners) handlers.Options {
	stored, o := WithPseudonyms(s.store, s.keys), s.options.HTTP
	o.Limiter, o.Reader = s.limiter, stored
	o.Writer = countedWriter{Writer: stored, outcomes: s.metrics.Outcomes(stored)}
	o.Exports, o.RecordedKeys, o.Retention, o.Webhooks = stored, stored.RecordedKeys, s.store.RetentionRunner(), stored
	o.Backtests, o.Registry = s.backtests, s.store.Records
	o.Ready, o.ReadySince, o.Answers, o.Running = s.ready, s.readySince, s.answers, ctx
	o.Logger, o.Metrics, o.Observe = s.logger, s.metrics.Handler(), s.countRequest
	if s.options.Origins != nil {
		o.Reader = OriginReader{Reader: stored, Origins: s.options.Origins}
	}
	if s.options.Gates != nil {
		o.Gates = s.options.Gates
	}
	o.WriteTimeout, o.Auth = s.options.CheckTimeout, s.auth(l)
	o.RateLimits = s.rateLimits(o)
	o.Examine = s.examine
	return o
}

// beginDraining makes the instance not ready, and makes answers close their
// connections, so that callers and load balancers go to other instances.
func (s *Instance) beginDraining() {
	s.draining.Store(true)
	s.readiness.stop()
}

// drain answers "not ready" for as long as load balancers need to notice.
func (s *Instance) drain(ctx context.Context) {
	s.beginDraining()
	s.logger.LogAttrs(ctx, slog.LevelInfo, "stopping", slog.Duration("drain_delay", s.options.DrainDelay))
	<-time.After(s.options.DrainDelay)
}

// shutdown accepts no more connections, waits for the requests in flight, and ends the
// store of the checks. All of it must end within the shutdown timeout.
func (s *Instance) shutdown(servers []boundServer) error {
	s.beginDraining()
	// The context of the service has ended, so this needs another.
	ctx, cancel := context.WithTimeout(context.Background(), s.options.ShutdownTimeout)
	defer cancel()
	defer s.backtests.Close()
	return errors.Join(shutDown(ctx, servers, s.options.ShutdownTimeout), s.checks.Close(ctx))
}

// examine implements service.Examine. It connects as the instance does, by few separate connections.
func (s *Instance) examine(ctx context.Context) ([]service.Diagnosis, error) {
	options := s.options.Database
	options.MaxConns, options.Observe = session.LeastMaxConns, nil
	return doctor.Examine(ctx, options, s.keys.Keys())
}
