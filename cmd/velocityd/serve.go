package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"velocityd/db"
	"velocityd/db/session"
	"velocityd/handlers"
	"velocityd/service"
	"velocityd/service/access"
	"velocityd/service/queue"
	"velocityd/telemetry"
)

type serveCmd struct {
	dsnFlags     `embed:""`
	serviceFlags `embed:""`
}

// Help is the longer explanation of the command.
func (serveCmd) Help() string {
	return `Any number of instances may serve from one database; they share its limits exactly.

The database must have the schema (velocityd migrate up). Without it, or if the account or the database is wrong, serve ends at once with exit code 1. It ends with 2 if the DSN, a flag or a file that one names is wrong. If the database is away, serve waits for it, and answers checks with 503 meanwhile.

GET /readyz answers 200 while checks can be decided, and otherwise 503 with the reason and what to do: the database cannot be reached, is read-only or refuses the account; the schema is older than this program, or a migration has stopped half-way; a table, a procedure, its owner or a right of the account is missing; a table is locked; or the instance is stopping. The service tests this by itself every few seconds, and logs "not ready" and "ready again". The test goes through all steps of a decision on a separate connection, and records nothing.

Checks that arrive at the same time are decided in one batch (--coalesce, --lanes, --queue). Larger calls are cut into pieces, which take turns. Of the requests with a body of more than 64 KiB, one for two cores and at least two are worked on at once; the others wait unread for up to a second. One call may take --lock-wait plus half of what --check-timeout leaves above it. A check waits in its queue before that, but only if its call can still end within --check-timeout. Checks that cannot be decided in time are answered with 503 and recorded nowhere.

On a loopback address everybody on the machine is answered, unless --require-auth is given. On any other address callers must have a token (velocityd token create) or a registered client certificate. If none is registered, serve ends with exit code 1. --insecure-no-auth lifts both.

With --tls-cert and --tls-key it speaks HTTPS, and SIGHUP reads the files again; a pair that does not load leaves the one before in force. With --admin-listen, --listen answers callers only.

While the database is away, read-only or not fit, checks of zones with on_failure allow or block are answered without it, with "degraded": true (--degraded-after, --state-dir). They are recorded nowhere. Once it is known to be away, nobody waits for it; the service tests it every second, and lets it decide again as soon as it can. /readyz answers 503 meanwhile, so that a load balancer sends no requests; route by /readyz?degraded=ok where it shall send them.

SIGTERM or Ctrl-C: the instance is not ready; after the drain delay it accepts no new connections; it answers every request in flight; then it closes its connections to the database. A second signal ends the process at once.

Example:

  VELOCITY_DSN='velocity:secret@tcp(db.example:3306)/velocityd' velocityd serve --listen 0.0.0.0:8080 --drain-delay 5s`
}

// Run serves until ctx ends.
func (c *serveCmd) Run(ctx context.Context, p *process) error {
	outliveReaders()
	dsn, err := c.configured()
	switch {
	case err != nil:
		return err
	case dsn == "":
		return usagef("no database: set VELOCITY_DSN (or --dsn, --dsn-file); to try velocityd without one, run 'velocityd dev'")
	}
	if err := c.validate(); err != nil {
		return err
	}
	logger := p.newLogger(c.serviceFlags)
	tracing, err := p.newTracing(ctx, c.serviceFlags, logger)
	if err != nil {
		return err
	}
	logger.LogAttrs(ctx, slog.LevelInfo, "configuration",
		slices.Concat(c.serviceFlags.attrs(dsn), c.dsnFlags.attrs(), []slog.Attr{slog.Bool("traces", tracing != nil)})...)
	listeners, err := c.listen(ctx)
	if err != nil {
		return err
	}
	defer listeners.catchHangups()()
	instance, err := newInstance(c.serviceFlags, session.Options{DSN: dsn, Engine: c.Engine, Reread: c.reread()}, logger, tracing)
	if err != nil {
		return errors.Join(err, listeners.close())
	}
	return instance.serve(ctx, listeners)
}

// outliveReaders lets the program go on when the reader of its log has gone. Go would end it at the
// next line (os/signal, "SIGPIPE").
func outliveReaders() { signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE) }

// instance is one running service.
type instance struct {
	flags serviceFlags
	store *db.Store
	keys  *service.Keyring
	// probe has a separate connection. If all connections of store are at work, the
	// instance is busy, and load balancers must not take it for broken.
	probe     *db.Probe
	logger    *slog.Logger
	readiness *readiness
	front     *front
	metrics   *telemetry.Metrics
	tracing   *telemetry.Tracing // nil: there are no traces
	draining  atomic.Bool
	// credentials knows callers by their credentials, if they must prove who they are, as
	// asksWho says.
	credentials *access.Cache
	asksWho     atomic.Bool
	state       *stateFolder // nil: what was known does not outlast a restart
	toldOfOther atomic.Int64 // Unix time of the last log line of another database
	// startsEmpty makes the instance serve also while it knows nobody whom it could answer.
	startsEmpty bool
}

// newInstance returns an instance that has not connected to anything yet. Of options, the
// database is given, and f has the rest. tracing is nil if there are no traces.
func newInstance(f serviceFlags, options session.Options, logger *slog.Logger, tracing *telemetry.Tracing) (*instance, error) {
	keys, err := f.keyring()
	if err != nil {
		return nil, err
	}
	metrics := f.newMetrics(logger)
	if tracing != nil {
		logger = slog.New(telemetry.LogHandler(logger.Handler()))
	}
	s := &instance{flags: f, keys: keys, logger: logger, metrics: metrics, tracing: tracing}
	options.MaxConns, options.LockWait, options.Observe = f.MaxConns, f.LockWait, s.noteEvent
	options.ConnectTimeout = f.connectTimeout()
	store, err := db.Open(options)
	if err != nil {
		return nil, err
	}
	probe, err := store.OpenProbe(options)
	if err != nil {
		return nil, err
	}
	s.store, s.probe = store, probe
	shards := &shardCheck{probe: probe, logger: logger}
	s.readiness = newReadiness(func(ctx context.Context) error {
		err := askWholeWay(ctx, probe, shards)
		if err == nil {
			err = s.proveKeys(ctx)
		}
		if err != nil || !s.asksWho.Load() {
			return err
		}
		return probe.ProveCredentials(ctx)
	}, logger)
	return s, s.remember()
}

// remember makes what answers without the database, from the state folder if there is one.
func (s *instance) remember() error {
	if s.flags.StateDir != "" {
		var err error
		if s.state, err = openState(s.flags.StateDir, s.logger); err != nil {
			return fmt.Errorf("%w (--state-dir names another folder)", err)
		}
	}
	s.front = s.newFront()
	s.credentials = s.newCredentials()
	return nil
}

// verify connects to the database and verifies its schema. Its errors are those of
// verifySchema.
func (s *instance) verify(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, connectTimeout)
	defer cancel()
	_, err := verifySchema(ctx, s.probe)
	return err
}

// closeDatabase closes the connections to the database. Its errors do not matter:
// every decision was committed before it was answered.
func (s *instance) closeDatabase() {
	s.credentials.Close()
	_ = s.store.Close()
	_ = s.probe.Close()
}

// serve answers on the listeners, which it closes, until ctx ends or a fault occurs. When
// it returns, every request has been answered and the connections to the database are
// closed. It returns nil if ctx has ended and everything ended in time.
func (s *instance) serve(ctx context.Context, l *listeners) error {
	defer s.closeDatabase()
	err := s.verify(ctx)
	if err == nil {
		err = s.wantCredential(ctx, l.farthest())
	}
	switch {
	case ctx.Err() != nil:
		return l.close()
	case err != nil && !errors.Is(err, service.ErrBusy):
		return errors.Join(err, l.close())
	}
	if err != nil {
		s.front.fallback.Open(err) // checks are answered without the database from the first one on
	} else {
		s.learnZones(ctx)
	}
	doors := s.newDoors(ctx, l)
	faults := make(chan error, len(doors)+1)
	running, stop := context.WithCancel(ctx)
	answering, endAnswers := context.WithCancel(context.WithoutCancel(ctx)) // until the last request is answered
	defer endAnswers()
	var background sync.WaitGroup
	background.Go(func() { s.front.fallback.Watch(answering) })
	background.Go(func() { s.front.zones.keep(running) })
	background.Go(func() { s.state.keep(answering) })
	if s.asksWho.Load() {
		background.Go(func() { s.credentials.Keep(running) })
	}
	for _, d := range doors {
		background.Go(func() { faults <- d.server.Serve(d.listener) })
	}
	s.announce(ctx, l)
	background.Go(func() { faults <- s.attend(running, err) })
	if l.certificates != nil {
		background.Go(func() { l.certificates.watch(running, s.logger, l.hangups) })
	}
	background.Go(func() { s.metrics.RunCensus(running, s.store.Census) })
	background.Go(func() { s.followKeys(running) })
	fault := s.untilStop(ctx, faults)
	stop()
	if fault == nil {
		s.drain(ctx)
	}
	fault = errors.Join(fault, s.shutdown(doors, s.front.end))
	endAnswers()
	background.Wait()
	s.endTracing()
	s.logger.LogAttrs(ctx, slog.LevelInfo, "stopped")
	return fault
}

// announce logs where the instance answers, and with which certificate.
func (s *instance) announce(ctx context.Context, l *listeners) {
	if l.certificates != nil {
		l.certificates.logInForce(ctx, s.logger)
	}
	if l.admin != nil {
		s.logger.LogAttrs(ctx, slog.LevelInfo, "listening for administration", slog.String("address", l.admin.Addr().String()))
	}
	s.logger.LogAttrs(ctx, slog.LevelInfo, "listening", slog.String("address", l.main.Addr().String()))
}

// untilStop waits until ctx ends, and returns nil, or until a fault occurs, and returns
// it.
func (s *instance) untilStop(ctx context.Context, faults <-chan error) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case err := <-faults:
			if err != nil {
				return err
			}
		}
	}
}

// attend waits for the database if away, the error of verify, is not nil. Then it tests
// every few seconds whether checks can be decided, until ctx ends. Its errors are those
// of awaitDatabase.
func (s *instance) attend(ctx context.Context, away error) error {
	if away != nil {
		if err := s.awaitDatabase(ctx, away); err != nil || ctx.Err() != nil {
			return err
		}
		s.learnZones(ctx)
	}
	s.readiness.watch(ctx)
	return nil
}

// learnZones reads the zones, when the database has been reached. It logs a warning if there are
// none, or if checks of some cannot be decided.
func (s *instance) learnZones(ctx context.Context) {
	zones, err := s.front.zones.refresh(ctx)
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
func (s *instance) awaitDatabase(ctx context.Context, err error) error {
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

// newCheckStore returns the store that decides checks with normalised keys by the database,
// and a function that ends it. The function must be called after the last check.
func (s *instance) newCheckStore() (store service.CheckStore, end func(context.Context) error) {
	if !s.flags.coalesces() {
		s.watchWith(nil)
		return s.observed(), func(context.Context) error { return nil }
	}
	coalescer := queue.NewCoalescer(s.observed(), queue.CoalescerOptions{
		Lanes: s.flags.lanes(), HeldCalls: s.flags.heldCalls(), Queue: s.flags.Queue, Timeout: s.flags.batchTimeout(),
		ShardOf: s.store.ShardOf, Observe: s.coalescerObserver(),
	})
	s.watchWith(coalescer.Use)
	return coalescer, coalescer.Close
}

func (s *instance) handlerOptions(ctx context.Context, l *listeners) handlers.Options {
	stored := hidingStore{s.store, s.keys}
	return handlers.Options{
		Limiter: s.metrics.Checks(s.front.limiter), Reader: stored,
		Writer: countedWriter{Writer: stored, outcomes: s.metrics.Outcomes(stored)},
		Ready:  s.ready, Answers: s.answers, Logger: s.logger, AccessLog: s.flags.AccessLog, WriteTimeout: s.flags.CheckTimeout,
		Metrics: s.metrics.Handler(), Observe: s.countRequest,
		Auth: s.auth(l), AllowedHosts: s.flags.hosts(), MaxBodyBytes: s.flags.MaxBodyBytes, Running: ctx,
	}
}

// beginDraining makes the instance not ready, and makes answers close their
// connections, so that callers and load balancers go to other instances.
func (s *instance) beginDraining() {
	s.draining.Store(true)
	s.readiness.stop()
}

// drain answers "not ready" for as long as load balancers need to notice.
func (s *instance) drain(ctx context.Context) {
	s.beginDraining()
	s.logger.LogAttrs(ctx, slog.LevelInfo, "stopping", slog.Duration("drain_delay", s.flags.DrainDelay))
	<-time.After(s.flags.DrainDelay)
}

// shutdown accepts no more connections, waits for the requests in flight, and ends the
// store of the checks. All of it must end within the shutdown timeout.
func (s *instance) shutdown(doors []door, endChecks func(context.Context) error) error {
	s.beginDraining()
	// The context of the service has ended, so this needs another.
	ctx, cancel := context.WithTimeout(context.Background(), s.flags.ShutdownTimeout)
	defer cancel()
	return errors.Join(shutDown(ctx, doors, s.flags.ShutdownTimeout), endChecks(ctx))
}
