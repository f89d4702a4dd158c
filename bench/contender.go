package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"velocityd/bench/round"
	"velocityd/db/localdb"
)

// contender is one way of limiting that runs and can be asked.
type contender struct {
	kind     string  // the name that scenarios and targets use
	engine   *engine // the database that it uses; nil if it uses none
	name     string  // for the report
	protocol string
	address  string
	door     string    // host:port of its gRPC listener; "" if it has none
	about    string    // a sentence on its kind and its setup
	server   int       // process id of the database or Redis; 0 if there is none
	service  int       // process id of the HTTP server; 0 if callers reach the database or Redis directly
	database *database // the schema with a row for every attempt; nil if there is none
	shares   bool      // its service and database are another contender's
	records  bool      // it only records: it limits nothing and lets every attempt through
	logBytes func() (int64, error)
	// run asks a contender that a load generator cannot ask, because it is a library. It
	// returns the processor time of the asking process. nil for all other contenders.
	run func(context.Context, round.Order) (round.Summary, time.Duration, error)
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
	turning    time.Time // when its turns began
	engines    []*engine
	programs   programs
	contenders []*contender // as the report lists them
	absent     []absence
	versions   []string
	closing    sync.Mutex // engines are set up side by side
	onClose    []func()
}

// newStage makes an empty stage in the checkout that is the current folder, with a temporary folder that close removes.
func newStage() (*stage, error) {
	root, err := os.Getwd()
	if err != nil {
		return nil, fmt.Errorf("find the checkout: %w", err)
	}
	dir, err := os.MkdirTemp("", "velocityd-bench-")
	if err != nil {
		return nil, fmt.Errorf("make a temporary folder: %w", err)
	}
	began := time.Now()
	s := &stage{dir: dir, root: root, progress: func(format string, args ...any) {
		fmt.Fprintf(os.Stderr, "%6.1f s  %s\n", time.Since(began).Seconds(), fmt.Sprintf(format, args...))
	}}
	s.later(func() { _ = os.RemoveAll(dir) })
	return s, nil
}

// absence is a contender that could not be set up.
type absence struct{ name, reason string }

// programs are the binaries that were built from the checkout.
type programs struct{ velocityd, load string }

// close ends everything, in the reverse order of its start.
func (s *stage) close() {
	for i := len(s.onClose) - 1; i >= 0; i-- {
		s.onClose[i]()
	}
	s.onClose = nil
}

// later makes close call end.
func (s *stage) later(end func()) {
	s.closing.Lock()
	defer s.closing.Unlock()
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

// addOurs starts the engines and sets up on each the contenders that need no other
// software. It does so on all engines at once.
func (s *stage) addOurs(ctx context.Context, o options) error {
	lists, errs := make([][]*contender, len(o.engines)), make([]error, len(o.engines))
	s.engines = make([]*engine, len(o.engines))
	var group sync.WaitGroup
	for i, kind := range o.engines {
		group.Go(func() {
			if s.engines[i], errs[i] = startEngine(ctx, s.dir, kind, serverSettings()); errs[i] != nil {
				return
			}
			s.later(s.engines[i].stop)
			lists[i], errs[i] = s.ours(ctx, s.engines[i], o)
		})
	}
	group.Wait()
	if err := errors.Join(errs...); err != nil {
		return err
	}
	for i, e := range s.engines {
		s.versions = append(s.versions, e.name()+" "+e.binary.Version)
		s.add(lists[i]...)
	}
	return nil
}

// ours sets up the contenders that need only an engine: the textbook, velocityd's
// procedure, the service, the service on a schema with a history if that is wanted, and
// recording without a check. Each schema has one contender, but recording uses the
// service's.
func (s *stage) ours(ctx context.Context, e *engine, o options) ([]*contender, error) {
	list, err := s.onNewSchemas(ctx, e, o)
	if err != nil {
		return nil, err
	}
	service := list[len(list)-1].database
	if o.wants(inHistory) {
		c, err := s.old(ctx, e, o)
		if err != nil {
			return nil, err
		}
		list = append(list, c)
	}
	list = append(list, &contender{
		kind: kindRecording, name: "recording alone", protocol: round.Recording, database: service, records: true,
		about: "INSERT INTO zone_txn and COMMIT in one packet, into the service's own table, in batches as long and over as many " +
			"connections and at the same pace as the service at 512 callers just before; no lock, no count, no answer: a floor, not a limiter",
	})
	for _, c := range list {
		if err := s.connect(ctx, c, e); err != nil {
			return nil, err
		}
	}
	return append(list, besides(list)...), nil
}

// besides are the other ways to ask the service of a list: by package client, and over gRPC. They share its process and schema.
func besides(list []*contender) []*contender {
	served := *list[slices.IndexFunc(list, func(c *contender) bool { return c.kind == kindService })]
	served.logBytes, served.shares = nil, true
	plain, coalesced, door := served, served, served
	plain.kind, plain.protocol, plain.name = kindClient, round.Client, served.name+", package client"
	plain.about = "the same service and schema, asked by package client as a login server in Go does: one client for all callers; " +
		"its processor time is the generator's"
	coalesced.kind, coalesced.protocol, coalesced.name = kindCoalesced, round.Coalesced, served.name+", client coalescing"
	coalesced.about = "the same by a client with WithCoalescing: checks that meet share a POST /v1/checks"
	door.kind, door.protocol, door.name, door.address = kindDoor, round.RPC, "velocityd over gRPC, "+served.engine.name(), served.door
	door.about = "the same service and schema, asked as Envoy asks its Rate Limit Service, at --grpc-listen"
	return []*contender{&plain, &coalesced, &door}
}

// onNewSchemas makes the schemas without a history and returns their contenders, the
// textbook first and the service last.
func (s *stage) onNewSchemas(ctx context.Context, e *engine, o options) ([]*contender, error) {
	textbook, err := s.schema(ctx, e, "bench_textbook", createTextbook, users())
	if err != nil {
		return nil, err
	}
	procedure, err := s.schema(ctx, e, "bench_procedure", s.migrate, users())
	if err != nil {
		return nil, err
	}
	lone, err := s.schema(ctx, e, "bench_"+kindLone, s.migrate, usersAndAddresses())
	if err != nil {
		return nil, err
	}
	service, err := s.schema(ctx, e, "bench_service", s.migrate, served())
	if err != nil {
		return nil, err
	}
	if err := errors.Join(service.setPeriods(ctx), service.seedOverrides(ctx, o.overrides)); err != nil {
		return nil, err
	}
	return []*contender{{
		kind: kindTextbook, name: "textbook procedure, CALL", protocol: round.Procedure, database: textbook,
		about: "the usual way in SQL: seed the lock row, lock, count, insert; one CALL a check, over the socket",
	}, {
		kind: kindProcedure, name: "velocityd's procedure, CALL", protocol: round.Procedure, database: procedure,
		about: "check_velocity called by SQL, one CALL a check, over the socket",
	}, {
		kind: kindLone, name: "velocityd over HTTP, lone callers only", protocol: round.Service, database: lone,
		about: "velocityd serve as it comes, on a schema that nobody else asks, so that its tables are about as long as the textbook's",
	}, {
		kind: kindService, name: "velocityd over HTTP", protocol: round.Service, database: service,
		about: "velocityd serve as it comes, with --grpc-listen, POST /v1/check",
	}}, nil
}

// connect completes a contender on an engine, and starts its service if it has one.
func (s *stage) connect(ctx context.Context, c *contender, e *engine) error {
	c.engine, c.server, c.logBytes, c.name = e, e.server.PID(), e.logBytes, c.name+", "+e.name()
	if c.protocol != round.Service {
		c.address = c.database.dsn
		return nil
	}
	var flags []string
	if c.kind == kindService {
		door, err := freeAddress(ctx)
		if err != nil {
			return err
		}
		c.door, flags = door, []string{"--grpc-listen", door}
	}
	process, address, err := s.serve(ctx, c.database, c.kind, flags...)
	if err != nil {
		return err
	}
	c.address, c.service = address, process.pid()
	return nil
}

// old sets up the service on a schema with a history.
func (s *stage) old(ctx context.Context, e *engine, o options) (*contender, error) {
	d, err := s.schema(ctx, e, "bench_"+kindHistory, s.migrate, users())
	if err != nil {
		return nil, err
	}
	s.progress("%s: %s txns of history, %s", e.name(), grouped(o.history), byDay)
	if err := d.seedHistory(ctx, o.history); err != nil {
		return nil, err
	}
	return &contender{
		kind: kindHistory, name: "velocityd over HTTP, with a history " + byDay, protocol: round.Service, database: d,
		about: fmt.Sprintf("the same on a schema with %s txns of the last %d days, %s", grouped(o.history), historyDays, byDay),
	}, nil
}

// schema makes a database with the zones and known buckets.
func (s *stage) schema(ctx context.Context, e *engine, name string, create func(context.Context, *database) error,
	list []known,
) (*database, error) {
	s.progress("%s: schema %s", e.name(), name)
	d, err := e.create(ctx, name)
	if err != nil {
		return nil, err
	}
	s.later(func() { _ = d.sql.Close() })
	if err := create(ctx, d); err != nil {
		return nil, err
	}
	return d, errors.Join(d.setZones(ctx), d.seedBuckets(ctx, list))
}

// migrate makes velocityd's schema, as an operator does. Retention has just looked for idle buckets there, and looks
// again hours later: known buckets have a lock row and no txn yet, so it would delete these rows during the run.
func (s *stage) migrate(ctx context.Context, d *database) error {
	if _, err := output(ctx, buildLimit, exec.CommandContext(ctx, s.programs.velocityd, "migrate", "up", "--dsn", d.dsn)); err != nil {
		return err
	}
	return d.session(ctx, `INSERT INTO retention_task (name, began_at, ended_at, succeeded_at)
VALUES ('idle_buckets', UTC_TIMESTAMP(6), UTC_TIMESTAMP(6), UTC_TIMESTAMP(6))`)
}

// serve starts velocityd on a database. close stops it.
func (s *stage) serve(ctx context.Context, d *database, name string, flags ...string) (process *child, address string, err error) {
	if address, err = freeAddress(ctx); err != nil {
		return nil, "", err
	}
	flags = append([]string{"serve", "--dsn", d.dsn, "--listen", address}, flags...)
	process, err = startChild(ctx, s.dir, d.engine.name()+"-"+name, nil, s.programs.velocityd, flags...)
	if err != nil {
		return nil, "", err
	}
	s.later(process.stop)
	return process, address, process.awaitPort(ctx, "tcp", address)
}

// name returns the engine's name for people.
func (e *engine) name() string { return engineName(e.binary.Engine) }

func engineName(kind localdb.Engine) string {
	if kind == localdb.MySQL {
		return "MySQL"
	}
	return "MariaDB"
}
