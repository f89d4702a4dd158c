package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os/exec"
	"time"

	"velocityd/bench/workload"
)

const (
	// An engine is idle if it uses less than a tenth of the pause. After so many tries
	// the benchmark does not wait any longer.
	settlePause = 100 * time.Millisecond
	settleTries = 10
	// gapSeconds is how long a gap is locked, and gapCallers how many callers ask for new buckets in it.
	gapSeconds = 60
	gapCallers = 8
)

// result is the measurement of one contender in one scenario and turn.
type result struct {
	turn      int
	scenario  string
	contender *contender
	workload.Summary
	server   time.Duration // processor time of the database or Redis
	service  time.Duration
	load     time.Duration // of the load generator
	logBytes int64         // by which the server's log grew
	txns     int64         // rows that were written
	commits  int64         // of the database, meanwhile
	lanes    int           // connections to the database that the service used
	faults   []string      // wrong answers
}

// cost returns processor time in seconds for 1,000 answers.
func (r result) cost(d time.Duration) float64 {
	answers := r.Answers()
	if answers == 0 {
		return 0
	}
	return d.Seconds() * 1000 / float64(answers)
}

func serverCost(r result) float64  { return r.cost(r.server) }
func serviceCost(r result) float64 { return r.cost(r.service) }

// webCost is the cost of both ends of HTTP.
func webCost(r result) float64 { return r.cost(r.service + r.load) }

// batch returns how many txns were recorded with one COMMIT, or 0 without COMMITs.
func (r result) batch() int { return int(float64(r.txns)/max(float64(r.commits), 1) + 0.5) }

// before holds the counters before a round.
type before struct {
	server, service        time.Duration
	logBytes, txn, commits int64
}

// measure asks one contender as sc says, and checks the answers.
func (s *stage) measure(ctx context.Context, c *contender, sc scenario, order workload.Order) (result, error) {
	r := result{scenario: sc.id, contender: c}
	if err := s.settle(ctx); err != nil {
		return r, err
	}
	was, err := c.look(ctx)
	if err != nil {
		return r, err
	}
	switch {
	case c.run != nil:
		r.Summary, r.service, err = c.run(ctx, order)
	default:
		r.Summary, r.load, err = s.ask(ctx, order)
	}
	if err != nil {
		return r, fmt.Errorf("%s, %s: %w", c.name, sc.title, err)
	}
	passed, err := c.account(ctx, &r, was, order)
	if err != nil {
		return r, err
	}
	r.faults = faultsOf(r, c, sc, passed)
	return r, nil
}

// account writes the gain of the contender's counters since was into r. It returns the number of new txns
// that were let through.
func (c *contender) account(
	ctx context.Context, r *result, was before, order workload.Order,
) (passed int64, err error) {
	is, err := c.look(ctx)
	if err != nil {
		return 0, err
	}
	r.server, r.service, r.logBytes = is.server-was.server, r.service+is.service-was.service, is.logBytes-was.logBytes
	if c.database == nil {
		return 0, nil
	}
	r.commits = is.commits - was.commits
	var counts, connections error
	r.lanes, connections = c.database.connectionsOf(ctx, order.Seconds)
	r.txns, passed, counts = c.database.since(ctx, was.txn)
	return passed, errors.Join(counts, connections)
}

// settle waits until the databases have finished the work of the round before, so that
// the next contender does not pay for it. It does not wait longer than a limit.
func (s *stage) settle(ctx context.Context) error {
	was, err := s.enginesCPU()
	for range settleTries {
		if err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(settlePause):
		}
		var is time.Duration
		if is, err = s.enginesCPU(); err == nil && is-was <= settlePause/10 {
			return nil
		}
		was = is
	}
	return err
}

// enginesCPU returns the processor time of all databases.
func (s *stage) enginesCPU() (sum time.Duration, err error) {
	for _, e := range s.engines {
		one, err := cpuOf(e.server.PID())
		if err != nil {
			return 0, err
		}
		sum += one
	}
	return sum, nil
}

// look reads the counters of a contender's processes and files.
func (c *contender) look(ctx context.Context) (b before, err error) {
	var server, service, log error
	b.server, server = cpuOf(c.server)
	b.service, service = cpuOf(c.service)
	if c.logBytes != nil {
		b.logBytes, log = c.logBytes()
	}
	if err := errors.Join(server, service, log); err != nil || c.database == nil {
		return b, err
	}
	if b.commits, err = c.database.commits(ctx); err != nil {
		return b, err
	}
	b.txn, err = c.database.lastTxn(ctx)
	return b, err
}

// faultsOf returns the faults in the answers of a round.
func faultsOf(r result, c *contender, sc scenario, passed int64) (faults []string) {
	add := func(format string, args ...any) { faults = append(faults, fmt.Sprintf(format, args...)) }
	if r.Errors > 0 {
		add("%d checks without an answer (%s)", r.Errors, r.FirstError)
	}
	if r.Busy > 0 {
		add("%d checks refused for want of capacity", r.Busy)
	}
	if sc.admits > 0 && r.Admitted != sc.admits {
		add("%d admitted, not %d", r.Admitted, sc.admits)
	}
	if !c.shares && r.load.Seconds() > 0.9*r.Seconds { // package client is measured, and may use several cores
		add("the load generator was the limit: it took a whole core")
	}
	if c.database == nil || r.Errors > 0 { // an attempt without an answer may have a row
		return faults
	}
	each := int64(len(sc.draws(0)))
	if want := r.Answers() * each; r.txns != want {
		add("%d rows in zone_txn for %d answers", r.txns, want)
	}
	if want := r.Admitted * each; passed != want {
		add("%d rows in zone_txn were let through, and %d answers", passed, want)
	}
	return faults
}

// ask runs the load generator, which is another process.
func (s *stage) ask(ctx context.Context, order workload.Order) (sum workload.Summary, cpu time.Duration, err error) {
	cmd := exec.CommandContext(ctx, s.programs.load)
	// One core is more than it needs, and more threads would spin.
	cmd.Env = append(cmd.Environ(), "GOMAXPROCS=1", "GOGC=400")
	return carryOut(ctx, cmd, order)
}

// carryOut gives an order to a program and returns its summary and processor time.
func carryOut(ctx context.Context, cmd *exec.Cmd, order any) (sum workload.Summary, cpu time.Duration, err error) {
	in, err := json.Marshal(order)
	if err != nil {
		return sum, 0, fmt.Errorf("write the order: %w", err)
	}
	cmd.Stdin = bytes.NewReader(in)
	out, err := output(ctx, roundLimit, cmd)
	if err != nil {
		return sum, 0, err
	}
	if err := json.Unmarshal(out, &sum); err != nil {
		return sum, 0, fmt.Errorf("read the summary: %w", err)
	}
	return sum, cmd.ProcessState.SystemTime() + cmd.ProcessState.UserTime(), nil
}

// measureMemory asks a new instance of the service over many connections, and notes the most memory that it held.
func (m *measured) measureMemory(ctx context.Context, c *contender, connections int) error {
	m.stage.progress("memory at %d connections, %s", connections, c.name)
	sc := scenarios(m.options.overrides)[0]
	sc.callers = connections
	process, address, err := m.stage.serve(ctx, fmt.Sprintf("%s-memory-%d-%v", c.engine.name(), connections, c.isBefore),
		c.program, "serve", "--dsn", c.database.dsn)
	if err != nil {
		return err
	}
	defer process.stop()
	order := orderOf(c, sc, 1, m.options.seconds)
	order.Address = address
	found := memory{contender: c, connections: connections}
	if found.Summary, _, err = m.stage.ask(ctx, order); err != nil {
		return err
	}
	found.resident, err = mostResidentOf(process.pid())
	m.memory = append(m.memory, found)
	return err
}

// measureGap asks for known buckets while a few callers ask for new ones in a gap. Another session locks that gap for a
// minute: it deletes a bucket that does not exist, and does not commit. A shorter time without the lock comes before
// and behind.
func (m *measured) measureGap(ctx context.Context, c *contender) error {
	seconds := m.options.gapSeconds()
	first, err := m.askBesideGap(ctx, c, seconds/3, 1)
	if err != nil {
		return err
	}
	session, err := c.engine.open(c.database.name)
	if err != nil {
		return err
	}
	defer session.sql.Close()
	// The gap is that behind the new buckets of the first time.
	const lock = "SELECT 1 FROM zone_bucket_lock WHERE zone_id = %d AND bucket_key = 'user-00000-2' FOR UPDATE"
	if err := session.session(ctx, "SET SESSION TRANSACTION ISOLATION LEVEL REPEATABLE READ", "START TRANSACTION",
		fmt.Sprintf(lock, zoneUser)); err != nil {
		return err
	}
	locked, err := m.askBesideGap(ctx, c, seconds, 2)
	if err := errors.Join(err, session.session(ctx, "ROLLBACK")); err != nil {
		return err
	}
	last, err := m.askBesideGap(ctx, c, seconds/3, 3)
	m.gaps = append(m.gaps, gap{c, (first.PerSecond() + last.PerSecond()) / 2, locked})
	m.stage.progress("beside a locked gap, %s: %.2f of the throughput", c.name, m.gaps[len(m.gaps)-1].share())
	return err
}

// askBesideGap returns the answers for known buckets. Those for new buckets in the gap are not counted.
func (m *measured) askBesideGap(
	ctx context.Context, c *contender, seconds float64, seed uint64,
) (workload.Summary, error) {
	known := orderOf(c, scenarios(m.options.overrides)[0], seed, seconds)
	fresh := known
	fresh.Callers, fresh.Draws = gapCallers, []workload.Draw{zoneOf(zoneUser).draw(fmt.Sprintf("user-00000-%d-", seed), 0)}
	asked := make(chan error, 1)
	go func() {
		_, _, err := m.stage.ask(ctx, fresh)
		asked <- err
	}()
	sum, _, err := m.stage.ask(ctx, known)
	return sum, errors.Join(err, <-asked)
}
