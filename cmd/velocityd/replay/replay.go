// Package replay reads login attempts out of sshd's logs, asks a store about each
// of them in the log's order, and sums up the answers. It must not know where the
// answers come from nor how a summary is printed. Of this project it imports only
// package service.
package replay

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"velocityd/service"
)

// busyTries is how often one batch is asked before the replay gives up on a busy store.
const busyTries = 6

var (
	// ErrInterrupted says that the context of a replay ended before its log did.
	ErrInterrupted = errors.New("interrupted")
	// ErrNoAttempt says that nothing was asked, because the log holds no login
	// attempt that could be asked about.
	ErrNoAttempt = errors.New("no login attempt in the log")
	// ErrUnread says that a log holds lines that look like attempts and could not be read.
	ErrUnread = errors.New("not all attempts were read")
	// errRulesChanged says that the store normalised keys in another way than the
	// replay.
	errRulesChanged = errors.New("the key rule of a zone was changed during the replay, so outcomes may have been reported in another " +
		"order; replay again")
)

// Options are the settings of a Replayer. Store is required, and a zone.
type Options struct {
	// Store answers the checks.
	Store service.Checker
	// Outcomes gets the outcome of each allowed attempt, before the next attempt in
	// one of its buckets is asked about. Nil means that outcomes are not reported.
	Outcomes service.OutcomeStore
	// UserZone is the zone whose keys are users, IPZone the zone whose keys are
	// addresses. One of them may be 0: then it is left out.
	UserZone, IPZone int64
	// Zones are the zones that exist. Their key rules tell which keys are one bucket.
	Zones []service.Zone
	// Batch is how many checks may be asked in one call, 1 to service.MaxChecks.
	Batch int
	// Latest is the latest time that a line without a year can mean.
	Latest time.Time
}

// Replayer asks a store about every attempt in one log. Its memory does not grow
// with the log, but with the number of keys that had no room. It is for one
// goroutine.
type Replayer struct {
	store    service.Checker
	userZone int64 // 0: users are not asked about
	ipZone   int64 // 0: addresses are not asked about
	batch    int
	outcomes service.OutcomeStore // nil: outcomes are not reported
	// rules are the key rules of the zones, by which the store normalises keys.
	rules  map[int64]service.KeyRule
	reader reader
	tally  *tally
	// calendar has the times of the log, which are told and not used: first and last are those of the attempts.
	calendar    calendar
	first, last moment

	pending []question
}

// New returns a Replayer for one log. The error wraps service.ErrNotFound if UserZone
// or IPZone is not among the zones. New asks the store nothing.
func New(o Options) (*Replayer, error) {
	r := &Replayer{
		store: o.Store, userZone: o.UserZone, ipZone: o.IPZone, batch: o.Batch, outcomes: o.Outcomes,
		rules: map[int64]service.KeyRule{}, tally: newTally(),
		calendar: calendar{latest: o.Latest},
	}
	for _, zone := range o.Zones {
		r.rules[zone.ID] = zone.Keys
	}
	for _, zone := range []int64{o.UserZone, o.IPZone} {
		if _, exists := r.rules[zone]; zone != 0 && !exists {
			return nil, fmt.Errorf("zone %d: %w", zone, service.ErrNotFound)
		}
	}
	return r, nil
}

// Run asks about each attempt in log, and returns the summary of the answers. With an
// error it returns the summary of the answers before it. If ctx ends, Run finishes the
// running call and returns ErrInterrupted. The error wraps ErrNoAttempt if the whole
// log was read and nothing in it could be asked, and ErrUnread if there are attempts that
// could not be read.
func (r *Replayer) Run(ctx context.Context, log io.Reader) (Summary, error) {
	began := time.Now()
	err := cmp.Or(r.run(ctx, log), r.nothing(), r.reader.notRead())
	s := r.tally.summary(time.Since(began), err == nil)
	s.UnreadAttempts, s.FirstUnread = r.reader.unread, r.reader.firstUnread
	r.calendar.decide(moment{})
	s.TimelessAttempts = r.calendar.timeless
	s.LogFrom, _ = r.calendar.settle(r.first)
	s.LogUntil, _ = r.calendar.settle(r.last)
	if r.outcomes != nil {
		successes, failures := r.tally.reported[service.OutcomeSuccess], r.tally.reported[service.OutcomeFailure]
		s.ReportedSuccesses, s.ReportedFailures = &successes, &failures
	}
	return s, err
}

// question is one attempt to ask about.
type question struct {
	check   service.Check
	buckets []service.Bucket // of the check, with normalised keys
	outcome service.Outcome
}

// run asks about the attempts in the log's order. When ctx ends, it finishes the
// running call and returns ErrInterrupted. Attempts that were not asked about do not
// count in the summary.
func (r *Replayer) run(ctx context.Context, log io.Reader) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop() // ends the reading goroutine
	for lines := readLines(ctx, log); ; {
		select {
		case <-ctx.Done():
			return ErrInterrupted
		case line, more := <-lines:
			if line.err != nil {
				return errors.Join(r.ask(ctx), fmt.Errorf("read log: %w", line.err))
			}
			if !more {
				return r.ask(ctx)
			}
			if err := r.take(ctx, line.text); err != nil {
				return err
			}
		}
	}
}

// logLine is a line of the log, or the error of reading it.
type logLine struct {
	text string
	err  error
}

// readLines reads the log in another goroutine, because a read of a pipe cannot be
// interrupted. It reads a few lines ahead.
func readLines(ctx context.Context, log io.Reader) <-chan logLine {
	lines := make(chan logLine, 64)
	go func() {
		defer close(lines)
		for reader := newLineReader(log); ; {
			text, err := reader.next()
			if errors.Is(err, io.EOF) {
				return
			}
			select {
			case lines <- logLine{text, err}:
			case <-ctx.Done():
				return
			}
			if err != nil {
				return
			}
		}
	}()
	return lines
}

// take adds the attempts that a line stands for to the pending checks. It asks the pending ones
// when the batch is full, or when the next one depends on their outcomes.
func (r *Replayer) take(ctx context.Context, line string) error {
	attempt := r.reader.read(line)
	if at, ok := r.calendar.read(r.reader.time, attempt.times); ok && attempt.times > 0 {
		if r.last = at; r.first.at.IsZero() {
			r.first = at
		}
	}
	next := r.question(attempt)
	switch {
	case attempt.times == 0:
		r.tally.skipped++
		return nil
	case len(next.buckets) == 0:
		r.tally.skipped++
		r.tally.keyless++
		return nil
	case r.userZone != 0 && r.ipZone != 0 && len(next.buckets) == 1:
		r.tally.partly += attempt.times
	}
	for range attempt.times {
		if r.mustAskBefore(next) {
			if err := r.ask(ctx); err != nil {
				return err
			}
		}
		r.pending = append(r.pending, next)
		if len(r.pending) < r.batch {
			continue
		}
		if err := r.ask(ctx); err != nil {
			return err
		}
	}
	return nil
}

// question returns the check for an attempt. It leaves out a zone in which the attempt's user or address
// cannot be a key, and so may have no bucket.
func (r *Replayer) question(a attempt) question {
	q := question{outcome: a.outcome}
	for _, b := range []service.Bucket{{ZoneID: r.userZone, Key: a.user}, {ZoneID: r.ipZone, Key: a.address()}} {
		key, err := r.rules[b.ZoneID].Normalize(b.Key)
		normal := service.Bucket{ZoneID: b.ZoneID, Key: key}
		if b.ZoneID == 0 || cmp.Or(err, b.Validate(), normal.Validate()) != nil {
			continue
		}
		q.check.Buckets = append(q.check.Buckets, b)
		q.buckets = append(q.buckets, normal)
	}
	return q
}

// mustAskBefore reports whether the pending checks must be asked, and their outcomes
// reported, before next is asked: one of them shares a bucket with next. Checks without
// a common bucket do not depend on each other's outcomes, so they can be asked
// together.
func (r *Replayer) mustAskBefore(next question) bool {
	if r.outcomes == nil {
		return false
	}
	return slices.ContainsFunc(r.pending, func(q question) bool {
		return slices.ContainsFunc(q.buckets, func(b service.Bucket) bool { return slices.Contains(next.buckets, b) })
	})
}

// ask asks the store about the pending checks, and then reports the outcomes of those
// that were allowed. Checks for which the store was busy were not decided, and are
// asked again. Any other error ends the replay.
func (r *Replayer) ask(ctx context.Context) error {
	defer func() { r.pending = r.pending[:0] }()
	for try := 1; len(r.pending) > 0; try++ {
		if ctx.Err() != nil {
			return ErrInterrupted
		}
		decisions, err := r.store.CheckAll(ctx, r.checks())
		if err == nil {
			var asked []question
			asked, decisions, err = r.settle(decisions)
			if err := cmp.Or(r.tally.count(decisions), r.report(ctx, asked, decisions)); err != nil {
				return err
			}
		}
		switch {
		case err == nil:
		case ctx.Err() != nil && errors.Is(err, service.ErrBusy):
			return ErrInterrupted
		case !errors.Is(err, service.ErrBusy) || errors.Is(err, service.ErrNoKeys) || try == busyTries:
			return fmt.Errorf("asked %d times: %w", try, err)
		case !pause(ctx, service.BusyRetryAfter):
			return ErrInterrupted
		}
	}
	return nil
}

// errDegraded is the error of a check that was answered without the database: a replay wants
// the records.
var errDegraded = fmt.Errorf("%w: answered without the database", service.ErrBusy)

// settle removes the answered questions from the pending ones and returns them with
// their answers. The error is that of a check for which the store was busy or its
// database away, if there is one.
func (r *Replayer) settle(decisions []service.Decision) (asked []question, answers []service.Decision, err error) {
	var again []question
	for i, q := range r.pending {
		if decisions[i].Degraded {
			decisions[i].Err = errDegraded
		}
		if errors.Is(decisions[i].Err, service.ErrBusy) {
			again, err = append(again, q), decisions[i].Err
			continue
		}
		asked, answers = append(asked, q), append(answers, decisions[i])
	}
	r.pending = append(r.pending[:0], again...)
	return asked, answers, err
}

func (r *Replayer) checks() []service.Check {
	checks := make([]service.Check, len(r.pending))
	for i, q := range r.pending {
		checks[i] = q.check
	}
	return checks
}

// report reports the outcomes of the allowed checks among asked, in order. It reports
// again after a lost answer, because the same outcome twice changes nothing.
func (r *Replayer) report(ctx context.Context, asked []question, decisions []service.Decision) error {
	if r.outcomes == nil {
		return nil
	}
	var reports []service.Report
	var buckets error
	for i, d := range decisions {
		if d.Err == nil && !d.Blocked {
			reports = append(reports, service.Report{TxnID: d.TxnID(), Outcome: asked[i].outcome})
		}
		for j, v := range d.Verdicts {
			if v.Bucket != asked[i].buckets[j] {
				buckets = errRulesChanged
			}
		}
	}
	for try := 1; len(reports) > 0; try++ {
		results, err := r.outcomes.ReportAll(ctx, reports)
		lost := errors.Is(err, service.ErrBusy) || errors.Is(err, service.ErrUndecided)
		switch {
		case err == nil:
			return cmp.Or(r.tally.countReports(reports, results), buckets)
		case !lost || try == busyTries:
			return fmt.Errorf("reported %d times: %w", try, err)
		case !pause(ctx, service.BusyRetryAfter):
			return ErrInterrupted
		}
	}
	return buckets
}

// pause waits for d. It returns false as soon as ctx ends.
func pause(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}
