package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os/exec"
	"time"

	"velocityd/bench/round"
)

// result is what one contender did in one scenario in one turn.
type result struct {
	turn      int
	scenario  string
	contender string
	round.Summary
	server   time.Duration // processor time of the database or Redis
	service  time.Duration
	load     time.Duration // of the load generator
	logBytes int64         // that the server's log grew by
	txns     int64         // rows that were written
	flood    round.Summary // of the callers beside
	faults   []string      // wrong answers
}

// cost is processor time in seconds for 1,000 answers.
func (r result) cost(d time.Duration) float64 {
	return perThousand(d, r.Answers()+r.flood.Answers())
}

func perThousand(d time.Duration, answers int64) float64 {
	if answers == 0 {
		return 0
	}
	return d.Seconds() * 1000 / float64(answers)
}

// before is what is read before a round, to know afterwards what it did.
type before struct {
	server, service time.Duration
	logBytes, txn   int64
}

// measure has one contender asked as sc says, and checks the answers.
func (s *stage) measure(ctx context.Context, c *contender, sc scenario, order round.Order) (result, error) {
	r := result{scenario: sc.id, contender: c.id}
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
	case sc.flood != nil:
		err = s.askFlooded(ctx, &r, order, sc)
	default:
		r.Summary, r.load, err = s.ask(ctx, order)
	}
	if err != nil {
		return r, fmt.Errorf("%s, %s: %w", c.name, sc.title, err)
	}
	is, err := c.look(ctx)
	if err != nil {
		return r, err
	}
	r.server, r.service, r.logBytes = is.server-was.server, r.service+is.service-was.service, is.logBytes-was.logBytes
	var passed int64
	if c.database != nil {
		if r.txns, passed, err = c.database.since(ctx, was.txn); err != nil {
			return r, err
		}
	}
	r.faults = faultsOf(r, c, sc, passed)
	return r, nil
}

// settle waits until the database has done what the round before left behind,
// so that the next contender does not pay for it; not for ever.
func (s *stage) settle(ctx context.Context) error {
	pid := s.engine.server.PID()
	was, err := cpuOf(pid)
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
		if is, err = cpuOf(pid); err == nil && is-was <= settlePause/10 {
			return nil
		}
		was = is
	}
	return err
}

// look reads the counters of a contender's processes and files.
func (c *contender) look(ctx context.Context) (b before, err error) {
	if b.server, err = cpuOf(c.server); err != nil {
		return b, err
	}
	if c.service != 0 {
		if b.service, err = cpuOf(c.service); err != nil {
			return b, err
		}
	}
	if c.logBytes != nil {
		if b.logBytes, err = c.logBytes(); err != nil {
			return b, err
		}
	}
	if c.database != nil {
		b.txn, err = c.database.lastTxn(ctx)
	}
	return b, err
}

// faultsOf holds the answers against what must be true of them.
func faultsOf(r result, c *contender, sc scenario, passed int64) (faults []string) {
	if r.Errors > 0 {
		faults = append(faults, fmt.Sprintf("%d checks without an answer (%s)", r.Errors, r.FirstError))
	}
	if r.Busy > 0 {
		faults = append(faults, fmt.Sprintf("%d checks refused for want of capacity", r.Busy))
	}
	if sc.flood != nil && r.flood.Admitted != hotRate {
		faults = append(faults, fmt.Sprintf("the flood was admitted %d times, not %d", r.flood.Admitted, hotRate))
	}
	if sc.admits > 0 && r.Admitted != sc.admits {
		faults = append(faults, fmt.Sprintf("admitted %d, not %d", r.Admitted, sc.admits))
	}
	if sc.flood == nil && r.load.Seconds() > 0.9*r.Seconds {
		faults = append(faults, "the load generator was the limit: it took a whole core")
	}
	if c.database == nil || r.Errors > 0 { // an attempt without an answer may be a row
		return faults
	}
	buckets := int64(len(sc.draws(0)))
	if want := (r.Answers() + r.flood.Answers()) * buckets; r.txns != want {
		faults = append(faults, fmt.Sprintf("%d rows in zone_txn for %d answers", r.txns, want))
	}
	// The textbook blocks each bucket by itself, so of pairs its rows say less.
	if want := (r.Admitted + r.flood.Admitted) * buckets; passed != want && (buckets == 1 || c.protocol != round.Textbook) {
		faults = append(faults, fmt.Sprintf("%d rows in zone_txn were let through, and %d answers", passed, want))
	}
	return faults
}

// ask runs the load generator, a process of its own.
func (s *stage) ask(ctx context.Context, order round.Order) (sum round.Summary, cpu time.Duration, err error) {
	cmd := exec.CommandContext(ctx, s.programs.load)
	// One core is more than it needs, and more threads would spin.
	cmd.Env = append(cmd.Environ(), "GOMAXPROCS=1", "GOGC=400")
	return carryOut(ctx, cmd, order)
}

// askFlooded asks while a flood does: it begins before and ends after. Its errors
// count as the contender's.
func (s *stage) askFlooded(ctx context.Context, r *result, order round.Order, sc scenario) error {
	flood := order
	flood.Draws, flood.Seconds = sc.flood(order.Seed), order.Seconds+2*floodLead.Seconds()
	var background time.Duration
	var floodErr error
	done := make(chan struct{})
	go func() {
		defer close(done)
		r.flood, background, floodErr = s.ask(ctx, flood)
	}()
	var err error
	select {
	case <-time.After(floodLead):
		r.Summary, r.load, err = s.ask(ctx, order)
	case <-ctx.Done():
		err = ctx.Err()
	}
	<-done
	r.load += background
	r.Errors, r.Busy = r.Errors+r.flood.Errors, r.Busy+r.flood.Busy
	return errors.Join(err, floodErr)
}

// carryOut gives a program an order and reads its summary and what it cost.
func carryOut(ctx context.Context, cmd *exec.Cmd, order any) (sum round.Summary, cpu time.Duration, err error) {
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

// memory holds connections open that all ask, and returns the most memory that
// the service held meanwhile, in bytes.
func (s *stage) memory(ctx context.Context, c *contender, order round.Order) (most int64, sum round.Summary, err error) {
	done := make(chan struct{})
	peak := make(chan int64)
	go func() {
		var most int64
		tick := time.NewTicker(pollEvery)
		defer tick.Stop()
		for {
			select {
			case <-done:
				peak <- most
				return
			case <-tick.C:
			}
			if now, err := residentOf(c.service); err == nil {
				most = max(most, now)
			}
		}
	}()
	sum, _, err = s.ask(ctx, order)
	close(done)
	return <-peak, sum, err
}
