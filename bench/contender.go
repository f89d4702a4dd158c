package main

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"sync"
	"time"

	"velocityd/bench/round"
)

// contender is one way of limiting, ready to be asked.
type contender struct {
	id       string
	name     string // for the report
	protocol string
	address  string
	about    string    // what it is and how it is set up, a sentence or two
	server   int       // process id of the database or Redis
	service  int       // of the process that speaks HTTP; 0 if callers reach the server directly
	database *database // where every attempt is a row; nil if it keeps none
	logBytes func() (int64, error)
	// run asks where no load generator can: it returns the asking process's
	// processor time, which is the contender's own. nil elsewhere.
	run func(context.Context, round.Order) (round.Summary, time.Duration, error)
}

// stage is everything that runs while the benchmark does.
type stage struct {
	dir        string // temporary, removed at the end
	root       string // the checkout
	progress   func(string, ...any)
	engine     *engine
	programs   programs
	contenders map[string]*contender
	order      []string // ids, as the report lists them
	absent     []absence
	versions   []string
	onClose    []func()
}

// absence is a contender that could not be had.
type absence struct{ name, reason string }

// programs are the binaries that were built from the checkout.
type programs struct{ velocityd, load string }

// close ends everything, last come first.
func (s *stage) close() {
	for i := len(s.onClose) - 1; i >= 0; i-- {
		s.onClose[i]()
	}
	s.onClose = nil
}

// later has a child stopped at the end.
func (s *stage) later(c *child) { s.onClose = append(s.onClose, c.stop) }

func (s *stage) add(c *contender) {
	s.contenders[c.id] = c
	s.order = append(s.order, c.id)
}

// build makes the binaries of the main module.
func (s *stage) build(ctx context.Context) error {
	s.programs = programs{velocityd: filepath.Join(s.dir, "velocityd"), load: filepath.Join(s.dir, "load")}
	for path, pkg := range map[string]string{s.programs.velocityd: "./cmd/velocityd", s.programs.load: "./bench/load"} {
		cmd := exec.CommandContext(ctx, "go", "build", "-o", path, pkg)
		cmd.Dir = s.root
		if _, err := output(ctx, buildLimit, cmd); err != nil {
			return fmt.Errorf("build %s: %w", pkg, err)
		}
	}
	return nil
}

// The ids that scenarios and targets name.
const (
	idTextbook  = "textbook"
	idProcedure = "procedure"
	idService   = "service"
	idHistory   = "history"
	idEnvoy     = "envoy"
	idEnvoyAOF  = "envoy-aof"
	idRate      = "redis-rate"
	idRateAOF   = "redis-rate-aof"
	idFlexible  = "flexible"
)

// addOurs sets up the contenders that need nothing from outside: the textbook,
// our procedure and our service, each with a schema of its own on one engine, and
// the service once more on a schema with a history.
func (s *stage) addOurs(ctx context.Context, o options) error {
	textbook, err := s.schema(ctx, "bench_textbook", createTextbook)
	if err != nil {
		return err
	}
	if err := textbook.seedHeld(ctx); err != nil {
		return err
	}
	s.add(&contender{
		id: idTextbook, name: "textbook procedure, CALL", protocol: round.Textbook, database: textbook,
		about: "the usual way in SQL: seed the lock row, lock, count, insert; one CALL a check, over the socket",
	})
	procedure, err := s.schema(ctx, "bench_procedure", s.migrate)
	if err != nil {
		return err
	}
	s.add(&contender{
		id: idProcedure, name: "velocityd's procedure, CALL", protocol: round.Procedure, database: procedure,
		about: "check_velocity called by SQL, one CALL a check, over the socket",
	})
	if err := s.addService(ctx, o); err != nil {
		return err
	}
	for _, id := range s.order {
		c := s.contenders[id]
		c.server, c.logBytes = s.engine.server.PID(), s.engine.logBytes
		if c.address == "" {
			c.address = c.database.dsn
		}
	}
	return nil
}

func (s *stage) addService(ctx context.Context, o options) error {
	served, err := s.schema(ctx, "bench_service", s.migrate)
	if err != nil {
		return err
	}
	old, err := s.schema(ctx, "bench_history", s.migrate)
	if err != nil {
		return err
	}
	s.progress("%s overrides, and %s txns of history", grouped(o.overrides), grouped(o.history))
	var exceptions, past error
	var seeds sync.WaitGroup
	seeds.Go(func() { exceptions = errors.Join(served.seedHeld(ctx), served.seedOverrides(ctx, o.overrides)) })
	seeds.Go(func() { past = old.seedHistory(ctx, o.history, o.byDay) })
	seeds.Wait()
	if err := errors.Join(exceptions, past); err != nil {
		return err
	}
	if err := s.serve(ctx, served, &contender{
		id: idService, name: "velocityd over HTTP",
		about: "velocityd serve as it comes, POST /v1/check",
	}); err != nil {
		return err
	}
	return s.serve(ctx, old, &contender{
		id: idHistory, name: "velocityd over HTTP, with a history",
		about: fmt.Sprintf("the same on a schema with %s txns of the last %d days, %s", grouped(o.history), historyDays, o.layout()),
	})
}

// schema makes a database with the zones and the known buckets.
func (s *stage) schema(ctx context.Context, name string, create func(context.Context, *database) error) (*database, error) {
	s.progress("schema %s", name)
	d, err := s.engine.create(ctx, name)
	if err != nil {
		return nil, err
	}
	s.onClose = append(s.onClose, func() { _ = d.sql.Close() })
	if err := create(ctx, d); err != nil {
		return nil, err
	}
	if err := d.setZones(ctx); err != nil {
		return nil, err
	}
	return d, d.seedBuckets(ctx)
}

// migrate makes our schema, as an operator does.
func (s *stage) migrate(ctx context.Context, d *database) error {
	_, err := output(ctx, buildLimit, exec.CommandContext(ctx, s.programs.velocityd, "migrate", "up", "--dsn", d.dsn))
	return err
}

// serve starts velocityd on a database and adds it as c.
func (s *stage) serve(ctx context.Context, d *database, c *contender) error {
	address, err := freeAddress(ctx)
	if err != nil {
		return err
	}
	process, err := startChild(ctx, s.dir, c.id, nil, s.programs.velocityd,
		"serve", "--dsn", d.dsn, "--listen", address)
	if err != nil {
		return err
	}
	s.later(process)
	if err := process.awaitPort(ctx, "tcp", address); err != nil {
		return err
	}
	c.protocol, c.address, c.database, c.service = round.Service, address, d, process.pid()
	s.add(c)
	return nil
}
