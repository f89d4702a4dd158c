// Command bench holds velocityd against other limiters, in one run, on one
// machine, with the same durable settings, and writes the report: `make bench`.
// It owns the contenders' lives, the scenarios and the report. It must not know
// how velocityd works: that is a program that it builds and starts.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"time"

	"velocityd/bench/round"
	"velocityd/db/localdb"
)

// Bounds on all that takes time.
const (
	runLimit   = 25 * time.Minute
	buildLimit = 5 * time.Minute
	roundLimit = time.Minute
	// A quiet engine takes less than a tenth of the pause; after so many tries it
	// is taken as it is.
	settlePause = 100 * time.Millisecond
	settleTries = 10
	floodLead   = 300 * time.Millisecond // how much sooner a flood begins, and how much later it ends
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:])
	if ctx.Err() != nil {
		err = fmt.Errorf("stopped: %w", context.Cause(ctx)) // names the signal
	}
	stop()
	if err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

// options are what the command line says.
type options struct {
	quick     bool
	engine    string
	turns     int
	seconds   float64
	history   int
	byDay     bool
	overrides int
	memory    int
	report    string
	chart     string
	only      string
	args      []string // as they were given
}

func parse(args []string) (options, error) {
	o := options{args: args}
	flags := flag.NewFlagSet("bench", flag.ContinueOnError)
	flags.BoolVar(&o.quick, "quick", false, "short and rough: one turn of one second, small seeds; does not write the report")
	flags.StringVar(&o.engine, "engine", string(localdb.MySQL), "mysql or mariadb")
	flags.IntVar(&o.turns, "turns", 3, "how often everything is measured")
	flags.Float64Var(&o.seconds, "seconds", 3, "how long a contender is asked, each time")
	flags.IntVar(&o.history, "history", 20_000_000, "txns of the history")
	flags.BoolVar(&o.byDay, "partitions", true, "partition the history by day")
	flags.IntVar(&o.overrides, "overrides", 1_000_000, "overrides")
	flags.IntVar(&o.memory, "connections", 2000, "connections at which the service's memory is read")
	flags.StringVar(&o.report, "report", filepath.Join("docs", "performance.md"), "file whose marked section is written")
	flags.StringVar(&o.chart, "chart", filepath.Join("docs", "performance.svg"), "chart to write")
	flags.StringVar(&o.only, "only", "", "scenarios to measure, by id, separated by commas; does not write the report")
	if err := flags.Parse(args); err != nil {
		return o, err
	}
	if o.quick {
		o.turns, o.seconds, o.history, o.overrides = 1, 1, min(o.history, 200_000), min(o.overrides, 20_000)
	}
	if o.turns < 1 || o.seconds <= 0 || o.history < 0 || o.overrides < 1 || o.memory < 1 {
		return o, errors.New("turns, seconds, history, overrides and connections must be above zero")
	}
	return o, nil
}

// layout says how the history is kept.
func (o options) layout() string {
	if o.byDay {
		return "partitioned by day"
	}
	return "without partitions"
}

func run(ctx context.Context, args []string) error {
	o, err := parse(args)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, runLimit)
	defer cancel()
	began := time.Now()
	progress := func(format string, args ...any) {
		fmt.Fprintf(os.Stderr, "%6.1f s  %s\n", time.Since(began).Seconds(), fmt.Sprintf(format, args...))
	}
	root, err := os.Getwd()
	if err != nil {
		return fmt.Errorf("find the checkout: %w", err)
	}
	dir, err := os.MkdirTemp("", "velocityd-bench-")
	if err != nil {
		return fmt.Errorf("make a temporary folder: %w", err)
	}
	s := &stage{dir: dir, root: root, progress: progress, contenders: map[string]*contender{}}
	defer func() { _ = os.RemoveAll(dir) }()
	defer s.close()
	about := describe(ctx, root, dir)
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
	s.progress("starting %s", o.engine)
	s.versions = append(s.versions, "Go "+strings.TrimPrefix(runtime.Version(), "go"))
	e, err := startEngine(ctx, s.dir, localdb.Engine(o.engine))
	if err != nil {
		return err
	}
	s.engine = e
	s.onClose = append(s.onClose, e.stop)
	s.versions = append(s.versions, fmt.Sprintf("%s %s", engineName(e.binary.Engine), e.binary.Version))
	if err := s.addOurs(ctx, o); err != nil {
		return err
	}
	s.addPeers(ctx)
	for _, a := range s.absent {
		s.progress("absent: %s: %s", a.name, a.reason)
	}
	return ctx.Err()
}

func engineName(e localdb.Engine) string {
	if e == localdb.MySQL {
		return "MySQL"
	}
	return "MariaDB"
}

// measureAll warms every contender up and measures all scenarios in turns.
func (s *stage) measureAll(ctx context.Context, o options) (*measured, error) {
	m := &measured{options: o, stage: s, scenarios: chosen(scenarios(o.overrides), o.only)}
	s.progress("warming up")
	for i, id := range s.order {
		if err := s.warmUp(ctx, s.contenders[id], scenarios(o.overrides)[0], uint64(i+1)); err != nil {
			return nil, err
		}
	}
	for turn := range o.turns {
		for i, sc := range m.scenarios {
			seed := uint64(1000*(turn+1) + i)
			for _, c := range s.turnOf(sc, turn) {
				r, err := s.measure(ctx, c, sc, orderOf(c, sc, seed, o.seconds))
				if err != nil {
					return nil, err
				}
				r.turn = turn
				s.progress("turn %d, %-10s  %-36s %8.0f/s  p50 %9v  p99 %9v  %s", turn+1, sc.id, c.name,
					r.PerSecond(), r.P50.Round(time.Microsecond), r.P99.Round(time.Microsecond), firstOf(r.faults))
				m.results = append(m.results, r)
			}
		}
	}
	return m, s.finish(ctx, m)
}

// warmUp has a contender asked for a second that does not count, and brings its
// tables' statistics to what they would be on a server that has run for a while.
func (s *stage) warmUp(ctx context.Context, c *contender, sc scenario, seed uint64) (err error) {
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

// turnOf lists who takes part, each turn beginning with another one, so that
// nobody always follows the same neighbour.
func (s *stage) turnOf(sc scenario, turn int) []*contender {
	var list []*contender
	for i := range sc.who {
		if c := s.contenders[sc.who[(i+turn)%len(sc.who)]]; c != nil {
			list = append(list, c)
		}
	}
	return list
}

func orderOf(c *contender, sc scenario, seed uint64, seconds float64) round.Order {
	return round.Order{
		Protocol: c.protocol, Address: c.address, Callers: sc.callers, Seconds: seconds, Seed: seed, Draws: sc.draws(seed),
	}
}

// finish measures what is measured once, at the end: memory, exactness, disk.
func (s *stage) finish(ctx context.Context, m *measured) error {
	c := s.contenders[idService]
	many := scenarios(m.options.overrides)[0]
	many.callers = m.options.memory
	s.progress("memory at %d connections", many.callers)
	var err error
	if m.idle, err = residentOf(c.service); err != nil {
		return err
	}
	if m.resident, m.crowd, err = s.memory(ctx, c, orderOf(c, many, 1, m.options.seconds)); err != nil {
		return err
	}
	s.progress("the handler's Go benchmark")
	m.gobench = s.goBenchmark(ctx)
	s.progress("looking for attempts that were let through in excess")
	for _, id := range s.order {
		c := s.contenders[id]
		if c.database == nil {
			continue
		}
		k, err := c.database.keeps(ctx, id)
		if err != nil {
			return err
		}
		m.kept = append(m.kept, k)
	}
	return nil
}

// goBenchmark runs the handler's benchmark and returns its lines as benchstat
// reads them, or why there are none.
func (s *stage) goBenchmark(ctx context.Context) string {
	cmd := exec.CommandContext(ctx, "go", "test", "./handlers", "-run", "^$", "-bench", "^BenchmarkCheck$", "-benchmem")
	cmd.Dir = s.root
	out, err := output(ctx, buildLimit, cmd)
	if err != nil {
		return err.Error()
	}
	var lines []string
	for line := range strings.Lines(string(out)) {
		if strings.HasPrefix(line, "Benchmark") {
			lines = append(lines, strings.TrimSpace(line))
		}
	}
	return strings.Join(lines, "\n")
}

// keeps looks at what a contender's tables hold.
func (d *database) keeps(ctx context.Context, id string) (k kept, err error) {
	k.contender = id
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
