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

The database must have the schema (velocityd migrate up): without it, or with an account or database that is wrong, serve ends at once with exit code 1, and with 2 if the DSN itself cannot be read. A database that is away is waited for: checks are answered with 503 meanwhile.

GET /readyz answers 200 while checks can be decided, and otherwise 503 with the reason and what to do: the database cannot be reached, is read-only or lets the account not in; the schema is older than this program or a migration has stopped half-way; a table, a procedure, its owner or a right of the account is missing; a table is locked; or the instance is stopping. The service looks by itself every few seconds and logs "not ready" and "ready again", whether or not anybody asks. To look, it goes the whole way of a decision on a connection of its own, and records nothing.

Checks that meet are decided in one batch (--coalesce, --lanes, --queue). Larger calls are cut into pieces, which take turns. Bodies of more than 64 KiB are worked on a few at a time, one for two cores and at least two; the others wait unread for up to a second. A check may wait in its queue, be asked in a call that may take half of what --check-timeout leaves above --lock-wait, and is never begun if that would take it beyond the --check-timeout. What can not be served in time is answered with 503 and recorded nowhere.

SIGTERM or Ctrl-C: not ready, then the drain delay, then no new connections, then every request in flight is answered, then the database is let go. A second signal ends the process at once.

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
	instance, err := newInstance(c.serviceFlags, dsn, logger)
	if err != nil {
		return errors.Join(err, listener.Close())
	}
	return instance.serve(ctx, listener)
}

// listen binds, so that a fault of the address is known before all else.
func listen(ctx context.Context, address string) (net.Listener, error) {
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", address)
	if err != nil {
		return nil, fmt.Errorf("%w (--listen names another address)", err)
	}
	return listener, nil
}

// instance is one serving life, from bound to closed.
type instance struct {
	flags serviceFlags
	store *db.Store
	// probe has one connection of its own: an instance whose connections are all at
	// work is busy, which must not make load balancers take it for broken.
	probe     *db.Probe
	logger    *slog.Logger
	readiness *readiness
	draining  atomic.Bool
}

// newInstance returns an instance that has not connected to anything yet.
func newInstance(f serviceFlags, dsn string, logger *slog.Logger) (*instance, error) {
	options := db.Options{DSN: dsn, MaxConns: f.MaxConns, LockWait: f.LockWait}
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

// verify looks whether checks can be decided. Its errors are those of
// verifySchema.
func (s *instance) verify(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, connectTimeout)
	defer cancel()
	_, err := verifySchema(ctx, s.probe)
	return err
}

// letGo closes the database. Nothing is lost by an error of it: every decision was
// committed before it was answered.
func (s *instance) letGo() {
	_ = s.store.Close()
	_ = s.probe.Close()
}

// serve answers on listener, which it closes, until ctx ends or a fault. Once it
// returns, every request has been answered and the database let go. It returns
// nil if it was told to stop and everything ended in time.
func (s *instance) serve(ctx context.Context, listener net.Listener) error {
	defer s.letGo()
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

// untilStop returns nil when ctx ends, or the first fault before.
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

// attend awaits the database, if away says that it was not there, and then looks every
// few seconds whether checks can be decided, until ctx ends. Its errors are those of
// awaitDatabase.
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

// warnOfNoZones logs that there is nothing yet that could be checked.
func (s *instance) warnOfNoZones(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, connectTimeout)
	defer cancel()
	if has, err := s.probe.HasZones(ctx); err == nil && !has { // an error will be told by who looks next
		s.logger.LogAttrs(ctx, slog.LevelWarn, "there are no zones: every check is answered with 404",
			slog.String("to_make_one", "velocityd zone set 1 --rate 5 --window 60"))
	}
}

// awaitDatabase tries until the database is there. It returns nil then and at
// the end of ctx, and an error for a fault that waiting does not mend.
func (s *instance) awaitDatabase(ctx context.Context, err error) error {
	s.logger.LogAttrs(ctx, slog.LevelWarn, "database is away: waiting for it", slog.String("error", err.Error()))
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

// newCheckStore returns what decides checks whose keys are normal, and what ends
// it, once nobody asks any more.
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
			// The caller's next request must go elsewhere.
			w.Header().Set("Connection", "close")
		}
		api.ServeHTTP(w, r)
	}), s.flags.CheckTimeout)
	server.ErrorLog = slog.NewLogLogger(s.logger.Handler(), slog.LevelWarn)
	return server
}

// beginDraining sends callers and load balancers elsewhere from now on.
func (s *instance) beginDraining() {
	s.draining.Store(true)
	s.readiness.stop()
}

// drain says "not ready" for as long as load balancers need to notice.
func (s *instance) drain(ctx context.Context) {
	s.beginDraining()
	s.logger.LogAttrs(ctx, slog.LevelInfo, "stopping", slog.Duration("drain_delay", s.flags.DrainDelay))
	<-time.After(s.flags.DrainDelay)
}

// shutdown accepts no more connections, waits for what is in flight, and then
// ends the checks' store in what is left of the time.
func (s *instance) shutdown(server *http.Server, endChecks func(context.Context) error) error {
	s.beginDraining()
	// Not the context that ran the service: that one has ended.
	ctx, cancel := context.WithTimeout(context.Background(), s.flags.ShutdownTimeout)
	defer cancel()
	err := server.Shutdown(ctx)
	if err != nil {
		err = fmt.Errorf("cut off requests that had not ended after %s: %w", s.flags.ShutdownTimeout, err)
		_ = server.Close() // so that Serve and the handlers end
	}
	return errors.Join(err, endChecks(ctx))
}
