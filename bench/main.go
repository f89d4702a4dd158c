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
	"slices"
	"strings"
	"syscall"
	"time"

	"velocityd/bench/workload"
	"velocityd/db/localdb"
)

// Limits of time.
const (
	runLimit   = 55 * time.Minute
	turnsLimit = 20 * time.Minute // of all turns; the rest takes 10 to 20 minutes more
	buildLimit = 5 * time.Minute
	roundLimit = 2 * time.Minute
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	command, args := run, os.Args[1:]
	if len(args) > 0 && args[0] == "history" {
		command, args = runPast, args[1:]
	}
	err := command(ctx, args)
	if ctx.Err() != nil {
		err = fmt.Errorf("stopped: %w", context.Cause(ctx)) // names the signal
	}
	stop()
	if err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

// options are the settings of the command line.
type options struct {
	smoke     bool
	engines   []localdb.Engine
	turns     int
	seconds   float64
	history   int
	overrides int
	report    string
	only      string
	beside    string   // another checkout
	args      []string // as they were given
}

func parse(args []string) (options, error) {
	o := options{args: args}
	var engines string
	flags := flag.NewFlagSet("bench", flag.ContinueOnError)
	flags.BoolVar(&o.smoke, "smoke", false,
		"three turns of one second, ours against the textbook alone; does not write the report")
	flags.StringVar(&engines, "engine", string(localdb.MySQL)+","+string(localdb.MariaDB),
		"mysql, mariadb, or both, separated by a comma")
	// The machine's pace changes from one second to the next, so many short turns tell more than few long ones.
	flags.IntVar(&o.turns, "turns", 9, "how often everything is measured")
	flags.Float64Var(&o.seconds, "seconds", 1, "how long a contender is asked, each time")
	flags.IntVar(&o.history, "history", 20_000_000, "txns of each history")
	flags.IntVar(&o.overrides, "overrides", 1_000_000, "overrides")
	flags.StringVar(&o.report, "report", filepath.Join("bench", "report.md"), "report to write")
	flags.StringVar(&o.only, "only", "", "scenarios to measure, by id, separated by commas; does not write the report")
	flags.StringVar(&o.beside, "beside", "", "folder with another checkout: its velocityd by turns with this one, in "+
		"place of other limiters; does not write the report")
	if err := flags.Parse(args); err != nil {
		return o, err
	}
	if o.smoke {
		o.turns, o.seconds, o.only, o.overrides = 3, 1, smokeScenarios, min(o.overrides, 20_000)
	}
	if o.only != "" || o.beside != "" {
		o.report = ""
	}
	for name := range strings.SplitSeq(engines, ",") {
		o.engines = append(o.engines, localdb.Engine(name))
	}
	if o.turns < 1 || o.seconds <= 0 || o.history < leastPast || o.overrides < 1 {
		return o, fmt.Errorf("turns, seconds and overrides must be above zero, and history %d or more", leastPast)
	}
	return o, nil
}

// wants reports whether a scenario is to be measured.
func (o options) wants(scenario string) bool {
	return o.only == "" || slices.Contains(strings.Split(o.only, ","), scenario)
}

// gapSeconds is how long a gap is locked.
func (o options) gapSeconds() float64 {
	if o.smoke {
		return gapSeconds / 10
	}
	return gapSeconds
}

func run(ctx context.Context, args []string) error {
	o, err := parse(args)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, runLimit)
	defer cancel()
	s, err := newStage(ctx)
	if err != nil {
		return err
	}
	defer s.close()
	m := &measured{options: o, stage: s}
	if err := m.open(ctx); err != nil {
		return err
	}
	if err := m.measureAll(ctx); err != nil {
		return err
	}
	if err := m.finish(ctx); err != nil {
		return err
	}
	return write(o.report, m.report(time.Now()))
}

// open builds and starts everything.
func (m *measured) open(ctx context.Context) error {
	s, o := m.stage, m.options
	if err := s.build(ctx); err != nil {
		return err
	}
	if o.beside != "" {
		s.programs.before = filepath.Join(s.dir, "before")
		if err := s.goBuild(ctx, o.beside, s.programs.before, "./cmd/velocityd"); err != nil {
			return err
		}
	}
	if err := s.addOurs(ctx, o); err != nil {
		return err
	}
	if !o.smoke && o.beside == "" {
		s.addRivals(ctx)
	}
	for _, a := range s.absent {
		s.progress("absent: %s: %s", a.name, a.reason)
	}
	for _, sc := range scenarios(o.overrides) {
		if o.wants(sc.id) && len(s.turnOf(sc, 0)) > 0 {
			m.scenarios = append(m.scenarios, sc)
		}
	}
	return ctx.Err()
}

// measureAll warms every contender up and measures all scenarios in turns.
func (m *measured) measureAll(ctx context.Context) error {
	s := m.stage
	s.progress("warming up")
	for i, c := range s.contenders {
		if err := s.warmUp(ctx, c, scenarios(m.options.overrides)[0], uint64(i+1)); err != nil {
			return err
		}
	}
	began := time.Now()
	for turn := range m.options.turns {
		if spent := time.Since(began); turn > 0 && spent+spent/time.Duration(turn) > turnsLimit {
			m.options.turns = turn
			s.progress("no time for another turn")
			break
		}
		for i, sc := range m.scenarios {
			if err := m.askAll(ctx, sc, turn, uint64(1000*(turn+1)+i)); err != nil {
				return err
			}
		}
	}
	return nil
}

// askAll measures all contenders of a scenario, one after the other.
func (m *measured) askAll(ctx context.Context, sc scenario, turn int, seed uint64) error {
	for _, c := range m.stage.turnOf(sc, turn) {
		order := orderOf(c, sc, seed, m.options.seconds)
		if !m.pace(c, &order) {
			continue
		}
		r, err := m.stage.measure(ctx, c, sc, order)
		if err != nil {
			return err
		}
		r.turn = turn
		m.stage.progress("turn %d, %-14s %-48s %7.0f/s  p50 %9v  p99 %9v  %s", turn+1, sc.id, c.name,
			r.PerSecond(), r.P50.Round(time.Microsecond), r.P99.Round(time.Microsecond), strings.Join(r.faults, "; "))
		m.results = append(m.results, r)
	}
	return nil
}

// pace sets the order of recording alone, which is asked as the service was at 512 callers just
// before: with as many connections, as many txns a COMMIT and as many txns a second. It returns
// false if the service was not measured.
func (m *measured) pace(c *contender, order *workload.Order) bool {
	if c.kind != kindRecording {
		return true
	}
	list := m.of(in512, kindService, c.engine)
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

func orderOf(c *contender, sc scenario, seed uint64, seconds float64) workload.Order {
	return workload.Order{
		Protocol: c.protocol, Address: c.address, Callers: sc.callers, Seconds: seconds, Seed: seed, Draws: sc.draws(seed),
	}
}

// finish measures memory, a locked gap, exactness and disk, which is done once, at the end.
func (m *measured) finish(ctx context.Context) error {
	for _, c := range m.stage.of(kindService) {
		for _, connections := range []int{500, 2000} {
			if err := m.measureMemory(ctx, c, connections); err != nil {
				return err
			}
		}
		if err := m.measureGap(ctx, c); err != nil {
			return err
		}
	}
	m.stage.progress("looking for attempts that were let through in excess")
	for _, c := range m.stage.contenders {
		if c.database == nil || c.kind == kindRecording || c.shares {
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
