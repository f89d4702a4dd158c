package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"velocityd/db"
	"velocityd/handlers"
	"velocityd/service"
)

type serveCmd struct {
	dsnFlags     `embed:""`
	serviceFlags `embed:""`
}

// Help is the longer explanation of the command.
func (serveCmd) Help() string {
	return `Any number of instances may serve from one database; they share its limits exactly.

The database must have the schema (velocityd migrate up). Without it, or if the account or the database is wrong, serve ends at once with exit code 1. It ends with 2 if the DSN is malformed. If the database is away, serve waits for it, and answers checks with 503 meanwhile.

GET /readyz answers 200 while checks can be decided, and otherwise 503 with the reason and what to do: the database cannot be reached, is read-only or refuses the account; the schema is older than this program, or a migration has stopped half-way; a table, a procedure, its owner or a right of the account is missing; a table is locked; or the instance is stopping. The service tests this by itself every few seconds, and logs "not ready" and "ready again". The test goes through all steps of a decision on a separate connection, and records nothing.

Checks that arrive at the same time are decided in one batch (--coalesce, --lanes, --queue). Larger calls are cut into pieces, which take turns. Of the requests with a body of more than 64 KiB, one for two cores and at least two are worked on at once; the others wait unread for up to a second. One call may take --lock-wait plus half of what --check-timeout leaves above it. A check waits in its queue before that, but only if its call can still end within --check-timeout. Checks that cannot be decided in time are answered with 503 and recorded nowhere.

SIGTERM or Ctrl-C: the instance is not ready; after the drain delay it accepts no new connections; it answers every request in flight; then it closes its connections to the database. A second signal ends the process at once.

Example:

  VELOCITY_DSN='velocity:secret@tcp(db.example:3306)/velocityd' velocityd serve --listen 0.0.0.0:8080 --drain-delay 5s`
}

// Run serves until ctx ends.
func (c *serveCmd) Run(ctx context.Context, p *process) error {
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
	logger.LogAttrs(ctx, slog.LevelInfo, "configuration", c.attrs(dsn)...)
	listener, err := listen(ctx, c.Listen)
	if err != nil {
		return err
	}
	instance, err := newInstance(c.serviceFlags, db.Options{DSN: dsn, Reread: c.reread()}, logger)
	if err != nil {
		return errors.Join(err, listener.Close())
	}
	return instance.serve(ctx, listener)
}

// listen binds the address. The commands call it first, so that a wrong address is
// reported at once.
func listen(ctx context.Context, address string) (net.Listener, error) {
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", address)
	if err != nil {
		return nil, fmt.Errorf("%w (--listen names another address)", err)
	}
	return listener, nil
}

// instance is one running service.
type instance struct {
	flags serviceFlags
	store *db.Store
	// probe has a separate connection. If all connections of store are at work, the
	// instance is busy, and load balancers must not take it for broken.
	probe     *db.Probe
	logger    *slog.Logger
	readiness *readiness
	draining  atomic.Bool
}

// newInstance returns an instance that has not connected to anything yet. Of options, the
// database is given, and f has the rest.
func newInstance(f serviceFlags, options db.Options, logger *slog.Logger) (*instance, error) {
	options.MaxConns, options.LockWait = f.MaxConns, f.LockWait
	store, err := db.Open(options)
	if err != nil {
		return nil, err
	}
	probe, err := db.OpenProbe(options)
	if err != nil {
		return nil, err
	}
	routines, err := newRoutineCheck(probe, logger)
	if err != nil {
		return nil, err
	}
	ask := func(ctx context.Context) error { return askWholeWay(ctx, probe, routines) }
	return &instance{flags: f, store: store, probe: probe, logger: logger, readiness: newReadiness(ask, logger)}, nil
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
	_ = s.store.Close()
	_ = s.probe.Close()
}

// serve answers on listener, which it closes, until ctx ends or a fault occurs. When it
// returns, every request has been answered and the connections to the database are
// closed. It returns nil if ctx has ended and everything ended in time.
func (s *instance) serve(ctx context.Context, listener net.Listener) error {
	defer s.closeDatabase()
	err := s.verify(ctx)
	switch {
	case ctx.Err() != nil:
		return listener.Close()
	case err != nil && !errors.Is(err, service.ErrBusy):
		return errors.Join(err, listener.Close())
	}
	checks, endChecks := s.newCheckStore()
	server := s.newServer(checks)
	faults := make(chan error, 2)
	running, stop := context.WithCancel(ctx)
	var background sync.WaitGroup
	background.Go(func() { faults <- server.Serve(handlers.NewListener(listener)) })
	s.logger.LogAttrs(ctx, slog.LevelInfo, "listening", slog.String("address", listener.Addr().String()))
	background.Go(func() { faults <- s.attend(running, err) })
	fault := s.untilStop(ctx, faults)
	stop()
	if fault == nil {
		s.drain(ctx)
	}
	fault = errors.Join(fault, s.shutdown(server, endChecks))
	background.Wait()
	s.logger.LogAttrs(ctx, slog.LevelInfo, "stopped")
	return fault
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
		if err := s.awaitDatabase(ctx, away); err != nil {
			return err
		}
	}
	if ctx.Err() != nil {
		return nil
	}
	s.warnOfNoZones(ctx)
	s.readiness.watch(ctx)
	return nil
}

// warnOfNoZones logs a warning if there are no zones.
func (s *instance) warnOfNoZones(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, connectTimeout)
	defer cancel()
	if has, err := s.probe.HasZones(ctx); err == nil && !has { // readiness reports an error
		s.logger.LogAttrs(ctx, slog.LevelWarn, "there are no zones, so every check is answered with 404",
			slog.String("make_one_by", "velocityd zone set 1 --rate 5 --window 60"))
	}
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

// newCheckStore returns the store that decides checks with normalised keys, and a
// function that ends it. The function must be called after the last check.
func (s *instance) newCheckStore() (store service.CheckStore, end func(context.Context) error) {
	if !s.flags.coalesces() {
		return s.store, func(context.Context) error { return nil }
	}
	coalescer := service.NewCoalescer(s.store, service.CoalescerOptions{
		Lanes: s.flags.lanes(), HeldCalls: s.flags.heldCalls(), Queue: s.flags.Queue, Timeout: s.flags.batchTimeout(),
	})
	return coalescer, coalescer.Close
}

func (s *instance) newServer(checks service.CheckStore) *http.Server {
	api := handlers.New(handlers.Options{
		Limiter: service.NewNormalizingLimiter(checks, s.store, s.flags.CheckTimeout), Reader: s.store, Writer: s.store,
		Ready: s.readiness.now, Logger: s.logger, AccessLog: s.flags.AccessLog, WriteTimeout: s.flags.CheckTimeout,
	})
	server := handlers.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if s.draining.Load() {
			// The caller's next request must go to another instance.
			w.Header().Set("Connection", "close")
		}
		api.ServeHTTP(w, r)
	}), s.flags.CheckTimeout)
	server.ErrorLog = slog.NewLogLogger(s.logger.Handler(), slog.LevelWarn)
	return server
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
func (s *instance) shutdown(server *http.Server, endChecks func(context.Context) error) error {
	s.beginDraining()
	// The context of the service has ended, so this needs another.
	ctx, cancel := context.WithTimeout(context.Background(), s.flags.ShutdownTimeout)
	defer cancel()
	err := server.Shutdown(ctx)
	if err != nil {
		err = fmt.Errorf("cut off requests that had not ended after %s: %w", s.flags.ShutdownTimeout, err)
		_ = server.Close() // so that Serve and the handlers end
	}
	return errors.Join(err, endChecks(ctx))
}
