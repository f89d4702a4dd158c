// Command bench compares velocityd with other limiters, in one run, on one machine, with
// the same durable settings, and writes the report: `make bench`. It starts and stops
// the contenders, and owns the scenarios and the report. It must not know how velocityd
// works: it builds and starts the program.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"time"

	"velocityd/bench/round"
	"velocityd/db/localdb"
)

// Limits of time.
const (
	runLimit   = 45 * time.Minute
	turnsLimit = 20 * time.Minute // of all turns; the preparation takes 5 to 11 minutes more
	buildLimit = 5 * time.Minute
	roundLimit = time.Minute
	// An engine is idle if it uses less than a tenth of the pause. After so many tries
	// the benchmark does not wait any longer.
	settlePause = 100 * time.Millisecond
	settleTries = 10
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := command(ctx, os.Args[1:])
	if ctx.Err() != nil {
		err = fmt.Errorf("stopped: %w", context.Cause(ctx)) // names the signal
	}
	stop()
	if err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

// command runs the benchmark, or that of long histories, or that of their audits.
func command(ctx context.Context, args []string) error {
	switch {
	case len(args) > 0 && args[0] == "history":
		return runPast(ctx, args[1:])
	case len(args) > 0 && args[0] == "proof":
		return runProofs(ctx, args[1:])
	}
	return run(ctx, args)
}

// options are the settings of the command line.
type options struct {
	quick, smoke bool
	engines      []localdb.Engine
	turns        int
	seconds      float64
	history      int
	overrides    int
	report       string
	only         string
	args         []string // as they were given
}

func parse(args []string) (options, error) {
	o := options{args: args}
	var engines string
	flags := flag.NewFlagSet("bench", flag.ContinueOnError)
	flags.BoolVar(&o.quick, "quick", false, "short and rough: one turn of one second, small seeds; does not write the report")
	flags.BoolVar(&o.smoke, "smoke", false, "three turns of one second, ours against the textbook alone; does not write the report")
	flags.StringVar(&engines, "engine", string(localdb.MySQL)+","+string(localdb.MariaDB), "mysql, mariadb, or both, separated by a comma")
	// The machine's pace changes from one second to the next, so many short turns tell more than few long ones.
	flags.IntVar(&o.turns, "turns", 9, "how often everything is measured")
	flags.Float64Var(&o.seconds, "seconds", 1, "how long a contender is asked, each time")
	flags.IntVar(&o.history, "history", 20_000_000, "txns of each history")
	flags.IntVar(&o.overrides, "overrides", 1_000_000, "overrides")
	flags.StringVar(&o.report, "report", filepath.Join("bench", "report.md"), "report to write")
	flags.StringVar(&o.only, "only", "", "scenarios to measure, by id, separated by commas; does not write the report")
	if err := flags.Parse(args); err != nil {
		return o, err
	}
	if o.quick {
		o.turns, o.seconds, o.history = 1, 1, min(o.history, 200_000)
	}
	if o.smoke {
		o.turns, o.seconds, o.only = 3, 1, smokeScenarios
	}
	if o.quick || o.smoke {
		o.overrides = min(o.overrides, 20_000)
	}
	for name := range strings.SplitSeq(engines, ",") {
		o.engines = append(o.engines, localdb.Engine(name))
	}
	if o.turns < 1 || o.seconds <= 0 || o.history < 1 || o.overrides < 1 {
		return o, errors.New("turns, seconds, history and overrides must be above zero")
	}
	return o, nil
}

// wants reports whether a scenario is to be measured.
func (o options) wants(scenario string) bool {
	return o.only == "" || slices.Contains(strings.Split(o.only, ","), scenario)
}

// whole reports whether the run is complete, so that the report is written from it.
func (o options) whole() bool { return !o.quick && o.only == "" }

func run(ctx context.Context, args []string) error {
	o, err := parse(args)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, runLimit)
	defer cancel()
	began := time.Now()
	s, err := newStage()
	if err != nil {
		return err
	}
	defer s.close()
	about := describe(ctx, s.root, s.dir)
	if err := s.open(ctx, o); err != nil {
		return err
	}
	m, err := s.measureAll(ctx, o)
	if err != nil {
		return err
	}
	m.machine = about
	m.took = time.Since(began)
	return m.publish(o)
}

// open builds and starts everything.
func (s *stage) open(ctx context.Context, o options) error {
	s.progress("building velocityd and the load generator")
	if err := s.build(ctx); err != nil {
		return err
	}
	s.versions = append(s.versions, "Go "+strings.TrimPrefix(runtime.Version(), "go"))
	if err := s.addOurs(ctx, o); err != nil {
		return err
	}
	if !o.smoke {
		s.addRivals(ctx)
	}
	for _, a := range s.absent {
		s.progress("absent: %s: %s", a.name, a.reason)
	}
	return ctx.Err()
}

// measureAll warms every contender up and measures all scenarios in turns.
func (s *stage) measureAll(ctx context.Context, o options) (*measured, error) {
	m := &measured{options: o, stage: s}
	for _, sc := range scenarios(o.overrides) {
		if o.wants(sc.id) {
			m.scenarios = append(m.scenarios, sc)
		}
	}
	s.progress("warming up")
	for i, c := range s.contenders {
		if err := s.warmUp(ctx, c, scenarios(o.overrides)[0], uint64(i+1)); err != nil {
			return nil, err
		}
	}
	s.turning = time.Now()
	for turn := range o.turns {
		if !s.hasTime(turn) {
			m.options.turns = turn
			s.progress("no time for another turn")
			break
		}
		for i, sc := range m.scenarios {
			if err := s.askAll(ctx, m, sc, turn, uint64(1000*(turn+1)+i)); err != nil {
				return nil, err
			}
		}
	}
	return m, s.finish(ctx, m)
}

// askAll measures all contenders of a scenario, one after the other.
func (s *stage) askAll(ctx context.Context, m *measured, sc scenario, turn int, seed uint64) error {
	for _, c := range s.turnOf(sc, turn) {
		order := orderOf(c, sc, seed, m.options.seconds)
		if !m.pace(c, &order) {
			continue
		}
		r, err := s.measure(ctx, c, sc, order)
		if err != nil {
			return err
		}
		r.turn = turn
		s.progress("turn %d, %-14s %-48s %7.0f/s  p50 %9v  p99 %9v  %s", turn+1, sc.id, c.name,
			r.PerSecond(), r.P50.Round(time.Microsecond), r.P99.Round(time.Microsecond), firstOf(r.faults))
		m.results = append(m.results, r)
	}
	return nil
}

// hasTime reports whether the run has time for another turn, if that takes as long as
// those before.
func (s *stage) hasTime(turns int) bool {
	spent := time.Since(s.turning)
	return turns == 0 || spent+spent/time.Duration(turns) < turnsLimit
}

// pace sets the order of recording alone, which is asked as the service was at 512 callers just
// before: with as many connections, as many txns a COMMIT and as many txns a second. It returns
// false if the service was not measured.
func (m *measured) pace(c *contender, order *round.Order) bool {
	if c.kind != kindRecording {
		return true
	}
	list := m.of(in512, kindService, c.engine.binary.Engine)
	if len(list) == 0 {
		return false
	}
	served := list[len(list)-1]
	order.Checks, order.Callers = max(served.batch(), 1), max(served.lanes, 1)
	order.Every = float64(order.Checks*order.Callers) / max(served.PerSecond(), 1)
	return true
}

// warmUp asks a contender for a second, which does not count, and updates the statistics of its tables, as
// on a server that has run for a while.
func (s *stage) warmUp(ctx context.Context, c *contender, sc scenario, seed uint64) (err error) {
	if c.kind == kindRecording || c.shares { // the service warms up its tables
		return nil
	}
	if c.database != nil {
		if c.database.seeded, err = c.database.lastTxn(ctx); err != nil {
			return err
		}
	}
	if _, err := s.measure(ctx, c, sc, orderOf(c, sc, seed, 1)); err != nil || c.database == nil {
		return err
	}
	return c.database.session(ctx, "ANALYZE NO_WRITE_TO_BINLOG TABLE zone_txn, zone_bucket_lock, zone_master")
}

func firstOf(texts []string) string {
	if len(texts) == 0 {
		return ""
	}
	return texts[0]
}

// turnOf returns the contenders of a scenario. Each turn begins with another one, so that
// their order has no effect.
func (s *stage) turnOf(sc scenario, turn int) []*contender {
	var list []*contender
	for _, kind := range sc.contenders {
		list = append(list, s.of(kind)...)
	}
	if len(list) == 0 {
		return nil
	}
	first := turn % len(list)
	return slices.Concat(list[first:], list[:first])
}

func orderOf(c *contender, sc scenario, seed uint64, seconds float64) round.Order {
	return round.Order{
		Protocol: c.protocol, Address: c.address, Callers: sc.callers, Seconds: seconds, Seed: seed, Draws: sc.draws(seed),
	}
}

// finish measures memory, exactness and disk, which is done once, at the end.
func (s *stage) finish(ctx context.Context, m *measured) error {
	crowded := scenarios(m.options.overrides)[0]
	for _, c := range s.of(kindService) {
		for _, connections := range crowds() {
			s.progress("memory at %d connections, %s", connections, c.engine.name())
			crowded.callers = connections
			found, err := s.memory(ctx, c, crowded, m.options)
			if err != nil {
				return err
			}
			m.memory = append(m.memory, found)
		}
	}
	s.progress("looking for attempts that were let through in excess")
	for _, c := range s.contenders {
		if c.database == nil || c.records || c.shares {
			continue
		}
		k, err := c.database.keeps(ctx, c)
		if err != nil {
			return err
		}
		m.kept = append(m.kept, k)
	}
	return nil
}

// keeps measures the tables of a contender.
func (d *database) keeps(ctx context.Context, c *contender) (k kept, err error) {
	k.contender = c
	for _, z := range []zone{zoneOf(zoneUser), zoneOf(zoneHot)} {
		n, err := d.excess(ctx, z)
		if err != nil {
			return k, err
		}
		k.excess += n
	}
	if k.bytes, k.txns, err = d.tableSize(ctx, "zone_txn"); err != nil {
		return k, err
	}
	k.lockBytes, k.locks, err = d.tableSize(ctx, "zone_bucket_lock")
	return k, err
}
