package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"

	"velocityd/bench/history"
	"velocityd/bench/workload"
)

// contender is one way of limiting that runs and can be asked.
type contender struct {
	kind     string  // the name that scenarios and ratios use
	engine   *engine // the database that it uses; nil if it uses none
	name     string  // for the report
	protocol string
	address  string
	door     string    // host:port of its gRPC listener; "" if it has none
	about    string    // a sentence on its kind and its setup
	program  string    // its velocityd; "" for the others
	isBefore bool      // its velocityd is that of the other checkout
	server   int       // process id of the database or Redis; 0 if there is none
	service  int       // process id of the HTTP server; 0 if callers reach the database or Redis directly
	database *database // the schema with a row for every attempt; nil if there is none
	shares   bool      // its service and database are another contender's
	logBytes func() (int64, error)
	known    []workload.Draw // buckets of its new schema
	seed     func(context.Context, *database) error
	// run asks a contender that a load generator cannot ask, because it is a library. It
	// returns the processor time of the asking process. nil for all other contenders.
	run func(context.Context, workload.Order) (workload.Summary, time.Duration, error)
}

// The kinds of contenders.
const (
	kindTextbook  = "textbook"
	kindProcedure = "procedure"
	kindService   = "service"
	kindLone      = "lone"
	kindClient    = "client"
	kindCoalesced = "coalesced"
	kindDoor      = "door"
	kindHistory   = "history"
	kindRecording = "recording"
	kindEcho      = "echo"
	kindEnvoy     = "envoy"
	kindEnvoyAOF  = "envoy-aof"
	kindRPC       = "rpc"
	kindRPCAOF    = "rpc-aof"
	kindRate      = "redis-rate"
	kindRateAOF   = "redis-rate-aof"
	kindFlexible  = "flexible"
)

// stage is everything that runs during the benchmark.
type stage struct {
	dir        string // temporary, removed at the end
	root       string // the checkout
	progress   func(string, ...any)
	began      time.Time
	machine    machine
	engines    []*engine
	programs   programs
	contenders []*contender // as the report lists them
	absent     []absence
	versions   []string
	lock       sync.Mutex // engines are set up side by side
	onClose    []func()
}

// newStage makes an empty stage in the checkout that is the current folder, with a temporary folder that close removes.
func newStage(ctx context.Context) (*stage, error) {
	root, err := os.Getwd()
	if err != nil {
		return nil, fmt.Errorf("find the checkout: %w", err)
	}
	dir, err := os.MkdirTemp("", "velocityd-bench-")
	if err != nil {
		return nil, fmt.Errorf("make a temporary folder: %w", err)
	}
	began := time.Now()
	s := &stage{
		dir: dir, root: root, began: began, machine: describe(ctx, root, dir),
		progress: func(format string, args ...any) {
			fmt.Fprintf(os.Stderr, "%6.1f s  %s\n", time.Since(began).Seconds(), fmt.Sprintf(format, args...))
		},
	}
	s.later(func() { _ = os.RemoveAll(dir) })
	return s, nil
}

// absence is a contender that could not be set up.
type absence struct{ name, reason string }

// programs are the binaries that were built from the checkout, and velocityd from the one before.
type programs struct{ velocityd, load, before string }

// close ends everything, in the reverse order of its start.
func (s *stage) close() {
	for i := len(s.onClose) - 1; i >= 0; i-- {
		s.onClose[i]()
	}
	s.onClose = nil
}

// later makes close call end.
func (s *stage) later(end func()) {
	s.lock.Lock()
	defer s.lock.Unlock()
	s.onClose = append(s.onClose, end)
}

func (s *stage) add(c ...*contender) { s.contenders = append(s.contenders, c...) }

// of lists the contenders of a kind, one for each engine that it uses.
func (s *stage) of(kind string) (list []*contender) {
	for _, c := range s.contenders {
		if c.kind == kind {
			list = append(list, c)
		}
	}
	return list
}

// build makes the binaries of the main module.
func (s *stage) build(ctx context.Context) error {
	s.versions = append(s.versions, "Go "+strings.TrimPrefix(runtime.Version(), "go"))
	s.programs = programs{velocityd: filepath.Join(s.dir, "velocityd"), load: filepath.Join(s.dir, "load")}
	return errors.Join(s.goBuild(ctx, s.root, s.programs.velocityd, "./cmd/velocityd"),
		s.goBuild(ctx, s.root, s.programs.load, "./bench/load"))
}

// goBuild builds a package of the module in a folder.
func (s *stage) goBuild(ctx context.Context, folder, path, pkg string) error {
	s.progress("building %s in %s", pkg, folder)
	cmd := exec.CommandContext(ctx, "go", "build", "-buildvcs=false", "-o", path, pkg)
	cmd.Dir, cmd.Env = folder, append(os.Environ(), "CGO_ENABLED=0")
	if _, err := output(ctx, buildLimit, cmd); err != nil {
		return fmt.Errorf("build %s: %w", pkg, err)
	}
	return nil
}

// addOurs starts the engines and sets up on each the contenders that need no other
// software. It does so on all engines at once.
func (s *stage) addOurs(ctx context.Context, o options) error {
	lists, errs := make([][]*contender, len(o.engines)), make([]error, len(o.engines))
	var group sync.WaitGroup
	for i, kind := range o.engines {
		group.Go(func() {
			e, err := s.startEngine(ctx, kind, serverSettings())
			if err == nil {
				lists[i], err = s.ours(ctx, e, o)
			}
			errs[i] = err
		})
	}
	group.Wait()
	slices.SortFunc(s.engines, func(a, b *engine) int { return strings.Compare(b.name(), a.name()) }) // MySQL first
	s.add(slices.Concat(lists...)...)
	return errors.Join(errs...)
}

// ours sets up the contenders that need only an engine. Each has a new schema, but those that share the service's.
func (s *stage) ours(ctx context.Context, e *engine, o options) (list []*contender, err error) {
	now, before := s.kinds(o), []contender(nil)
	if o.beside != "" {
		now = slices.DeleteFunc(now, func(c contender) bool { return c.program == "" })
		for _, c := range now {
			c.name, c.program, c.isBefore = c.name+" of "+o.beside, s.programs.before, true
			before = append(before, c)
		}
	}
	for _, c := range slices.Concat(now, before) {
		if err := s.setUp(ctx, &c, e); err != nil {
			return nil, fmt.Errorf("%s: %w", c.name, err)
		}
		list = append(list, &c)
		if c.kind == kindService {
			list = append(list, besides(c, o)...)
		}
	}
	return list, nil
}

// kinds returns the contenders with separate schemas, which are not set up yet.
func (s *stage) kinds(o options) []contender {
	velocityd := s.programs.velocityd
	list := []contender{{
		kind: kindTextbook, name: "textbook procedure, CALL", protocol: workload.Procedure, known: users(),
		about: "the usual way in SQL: seed the lock row, lock, count, insert; one CALL a check, over the socket",
	}, {
		kind: kindProcedure, name: "velocityd's procedure, CALL", protocol: workload.Procedure, program: velocityd,
		known: users(), about: "check_velocity called by SQL, one CALL a check, over the socket",
	}, {
		kind: kindLone, name: "velocityd over HTTP, lone callers only", protocol: workload.Service, program: velocityd,
		known: usersAndAddresses(),
		about: "velocityd serve as it comes, on a schema of its own, so that its tables are about as long as " +
			"the textbook's",
	}, {
		kind: kindService, name: "velocityd over HTTP", protocol: workload.Service, program: velocityd, known: served(),
		seed: func(ctx context.Context, d *database) error {
			return errors.Join(d.setPeriods(ctx), d.seedOverrides(ctx, o.overrides))
		},
		about: "velocityd serve as it comes, with --grpc-listen, POST /v1/check",
	}}
	if o.wants(inHistory) {
		list = append(list, contender{
			kind: kindHistory, name: "velocityd over HTTP, with a history " + byDay, protocol: workload.Service,
			program: velocityd, known: users(),
			seed: func(ctx context.Context, d *database) error { return d.fill(ctx, planOf(o.history), false) },
			about: fmt.Sprintf("the same on a schema with %s txns of the last %d days, %s", grouped(o.history), history.Days,
				byDay),
		})
	}
	return list
}

// setUp makes a contender's schema on an engine, and starts its service if it has one.
func (s *stage) setUp(ctx context.Context, c *contender, e *engine) (err error) {
	id := c.kind
	if c.isBefore {
		id += "_before"
	}
	c.engine, c.server, c.logBytes, c.name = e, e.server.PID(), e.logBytes, c.name+", "+e.name()
	s.progress("schema for %s", c.name)
	if c.database, err = s.schema(ctx, e, "bench_"+id, c.program, c.known); err != nil {
		return err
	}
	if c.seed != nil {
		if err := c.seed(ctx, c.database); err != nil {
			return err
		}
	}
	if c.protocol != workload.Service {
		c.address = c.database.dsn
		return nil
	}
	args := []string{"serve", "--dsn", c.database.dsn}
	if c.kind == kindService {
		if c.door, err = freeAddress(ctx); err != nil {
			return err
		}
		args = append(args, "--grpc-listen", c.door)
	}
	process, address, err := s.serve(ctx, e.name()+"-"+id, c.program, args...)
	if err != nil {
		return err
	}
	c.address, c.service = address, process.pid()
	return nil
}

// besides are the other ways to ask a service: over gRPC and by package client. They share its process and schema, as
// recording alone does, which has its table.
func besides(served contender, o options) []*contender {
	recording := &contender{
		kind: kindRecording, engine: served.engine, server: served.server, name: "recording alone, " + served.engine.name(),
		protocol: workload.Recording, database: served.database, address: served.database.dsn,
		about: "INSERT INTO zone_txn and COMMIT in one packet, into the service's own table, in batches as long and over " +
			"as many connections and at the same pace as the service at 512 callers just before; no lock, no count, no " +
			"answer: a floor, not a limiter",
	}
	served.logBytes, served.shares = nil, true
	plain, coalesced, door := served, served, served
	plain.kind, plain.protocol, plain.name = kindClient, workload.Client, served.name+", package client"
	plain.about = "the same service and schema, asked by package client as a login server in Go does: one client for " +
		"all callers; its processor time is the generator's"
	coalesced.kind, coalesced.protocol, coalesced.name = kindCoalesced, workload.Coalesced,
		served.name+", client coalescing"
	coalesced.about = "the same by a client with WithCoalescing: checks that meet share a POST /v1/checks"
	door.kind, door.protocol, door.address = kindDoor, workload.RPC, served.door
	door.name = strings.Replace(served.name, "over HTTP", "over gRPC", 1)
	door.about = "the same service and schema, asked as Envoy asks its Rate Limit Service, at --grpc-listen"
	if o.beside != "" { // the client is that of this checkout
		return []*contender{&door}
	}
	return []*contender{recording, &plain, &coalesced, &door}
}

// schema makes a database with the zones and known buckets: that of a velocityd, or of the textbook if there is no
// program.
func (s *stage) schema(ctx context.Context, e *engine, name, program string, list []workload.Draw) (*database, error) {
	d, err := e.create(ctx, name)
	if err != nil {
		return nil, err
	}
	s.later(func() { _ = d.sql.Close() })
	if program == "" {
		err = createTextbook(ctx, d)
	} else {
		err = migrate(ctx, program, d)
	}
	if err != nil {
		return nil, err
	}
	return d, errors.Join(d.setZones(ctx), d.seedBuckets(ctx, list))
}

// migrate makes velocityd's schema, as an operator does. Retention has just looked for idle buckets there, and looks
// again hours later: known buckets have a lock row and no txn yet, so it would delete these rows during the run.
func migrate(ctx context.Context, program string, d *database) error {
	if _, err := output(ctx, buildLimit, exec.CommandContext(ctx, program, "migrate", "up", "--dsn", d.dsn)); err != nil {
		return err
	}
	return d.session(ctx, `INSERT INTO retention_task (name, began_at, ended_at, succeeded_at)
VALUES ('idle_buckets', UTC_TIMESTAMP(6), UTC_TIMESTAMP(6), UTC_TIMESTAMP(6))`)
}

// serve starts a program that listens where its flag --listen says. close stops it.
func (s *stage) serve(ctx context.Context, name, program string, args ...string) (*child, string, error) {
	address, err := freeAddress(ctx)
	if err != nil {
		return nil, "", err
	}
	process, err := s.start(ctx, name, "tcp", address, nil, program, append(args, "--listen", address)...)
	return process, address, err
}

// start starts a process that close stops, and waits until it accepts connections.
func (s *stage) start(
	ctx context.Context, name, network, address string, env []string, program string, args ...string,
) (*child, error) {
	process, err := startChild(ctx, s.dir, name, env, program, args...)
	if err != nil {
		return nil, err
	}
	s.later(process.stop)
	return process, process.awaitPort(ctx, network, address)
}
