package main

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

const (
	// busyTries is how often one batch is asked before a busy store is believed.
	busyTries = 6
	// keysNamed is how many keys of a zone the summary names.
	keysNamed = 10
)

var (
	// errInterrupted says that the user ended a replay.
	errInterrupted = errors.New("interrupted")
	// errRulesChanged says that buckets were not those that the replay kept apart.
	errRulesChanged = errors.New("the key rule of a zone was changed during the replay: what would have been one bucket's attempts may have been asked together; replay again")
)

// replayer asks a store about every attempt in a log. Its memory does not grow
// with the log, but with the number of keys that had no room.
type replayer struct {
	store    service.CheckStore
	userZone int64 // 0: users are not asked about
	ipZone   int64 // 0: addresses are not asked about
	batch    int
	// outcomes is told how each allowed attempt ended; nil: nobody is.
	outcomes service.OutcomeStore
	// rules are those of the zones, by which the store makes buckets of keys;
	// zones that are not here have opaque keys.
	rules    map[int64]service.KeyRule
	progress func(bytes int)
	tally    *tally

	pending []question
	unseen  int // bytes read since the last progress
}

// question is one attempt to be asked about.
type question struct {
	check   service.Check
	buckets []service.Bucket // of the check, with normalised keys
	outcome service.Outcome
}

// run asks in the log's order until its end. It returns errInterrupted when ctx
// ends; the call at work is finished then, and what was not asked is not counted.
func (r *replayer) run(ctx context.Context, log io.Reader) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop() // ends the reading goroutine
	for lines := readLines(ctx, log); ; {
		select {
		case <-ctx.Done():
			return errInterrupted
		case line, more := <-lines:
			if line.err != nil {
				return errors.Join(r.ask(ctx), fmt.Errorf("read log: %w", line.err))
			}
			if !more {
				return r.ask(ctx)
			}
			if err := r.take(ctx, line); err != nil {
				return err
			}
		}
	}
}

// logLine is a line with its length in the file, or the error that ended it.
type logLine struct {
	text string
	size int
	err  error
}

// readLines reads ahead a little, in a goroutine of its own, because a read of a
// pipe cannot be interrupted.
func readLines(ctx context.Context, log io.Reader) <-chan logLine {
	lines := make(chan logLine, 64)
	go func() {
		defer close(lines)
		for reader := newLineReader(log); ; {
			text, size, err := reader.next()
			if errors.Is(err, io.EOF) {
				return
			}
			select {
			case lines <- logLine{text, size, err}:
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

// take turns one line into checks and asks when it is time.
func (r *replayer) take(ctx context.Context, line logLine) error {
	r.unseen += line.size
	attempt, ok := parseLine(line.text)
	if !ok {
		r.tally.skipped++
		return nil
	}
	next, err := r.question(attempt)
	if err != nil {
		r.tally.skipped++
		return nil
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

// question returns the check for an attempt, or an error that wraps
// service.ErrInvalid if its user or address cannot be a key.
func (r *replayer) question(a attempt) (question, error) {
	q := question{outcome: a.outcome}
	for _, b := range []service.Bucket{{ZoneID: r.userZone, Key: a.user}, {ZoneID: r.ipZone, Key: a.addr.String()}} {
		if b.ZoneID == 0 {
			continue
		}
		key, err := r.rules[b.ZoneID].Normalize(b.Key)
		if err != nil {
			return q, err
		}
		q.check.Buckets = append(q.check.Buckets, b)
		q.buckets = append(q.buckets, service.Bucket{ZoneID: b.ZoneID, Key: key})
	}
	if err := (service.Check{Buckets: q.buckets}).Validate(); err != nil {
		return q, err
	}
	return q, q.check.Validate()
}

// mustAskBefore says that a pending check shares a bucket with next, which must
// find its outcome reported. Checks without a common bucket do not see each
// other's outcomes: asking them together and then reporting all is the same as
// taking each by itself.
func (r *replayer) mustAskBefore(next question) bool {
	if r.outcomes == nil {
		return false
	}
	return slices.ContainsFunc(r.pending, func(q question) bool {
		return slices.ContainsFunc(q.buckets, func(b service.Bucket) bool { return slices.Contains(next.buckets, b) })
	})
}

// ask puts the pending checks to the store, and then reports the outcomes of
// those that were allowed. What the store was too busy for was not decided and is
// asked again; any other error ends the replay.
func (r *replayer) ask(ctx context.Context) error {
	defer func() { r.pending = r.pending[:0] }()
	for try := 1; len(r.pending) > 0; try++ {
		if ctx.Err() != nil {
			return errInterrupted
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
			return errInterrupted
		case !errors.Is(err, service.ErrBusy) || try == busyTries:
			return fmt.Errorf("asked %d times: %w", try, err)
		case !pause(ctx, service.BusyRetryAfter):
			return errInterrupted
		}
	}
	r.progress(r.unseen)
	r.unseen = 0
	return nil
}

// settle takes those questions out of the pending ones that were answered, and
// returns them with their answers. The error is that of what the store was too busy
// for, if there is any.
func (r *replayer) settle(decisions []service.Decision) (asked []question, answers []service.Decision, err error) {
	var again []question
	for i, q := range r.pending {
		if errors.Is(decisions[i].Err, service.ErrBusy) {
			again, err = append(again, q), decisions[i].Err
			continue
		}
		asked, answers = append(asked, q), append(answers, decisions[i])
	}
	r.pending = append(r.pending[:0], again...)
	return asked, answers, err
}

func (r *replayer) checks() []service.Check {
	checks := make([]service.Check, len(r.pending))
	for i, q := range r.pending {
		checks[i] = q.check
	}
	return checks
}

// report tells the outcomes of the allowed checks among asked, in order. Saying
// it again is harmless, so also a lost answer is asked for again.
func (r *replayer) report(ctx context.Context, asked []question, decisions []service.Decision) error {
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
			return errInterrupted
		}
	}
	return buckets
}

// pause waits and says whether ctx still lives.
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

// tally counts what was answered.
type tally struct {
	allowed, blocked, skipped int
	wouldBlock                int // blocked, or allowed because the zone without room is not enforced
	reported                  map[service.Outcome]int
	keys                      map[service.Bucket]int // how often each had no room
}

func newTally() *tally {
	return &tally{reported: map[service.Outcome]int{}, keys: map[service.Bucket]int{}}
}

// count adds decisions and returns the first refusal among them.
func (t *tally) count(decisions []service.Decision) error {
	var refused error
	for _, d := range decisions {
		switch {
		case d.Err != nil:
			refused = cmp.Or(refused, d.Err)
			continue
		case d.Blocked:
			t.blocked++
		default:
			t.allowed++
		}
		if d.WouldBlock {
			t.wouldBlock++
		}
		for _, v := range d.Verdicts {
			if v.WouldBlock {
				t.keys[v.Bucket]++
			}
		}
	}
	return refused
}

// countReports adds reports that were taken and returns the first refusal.
func (t *tally) countReports(reports []service.Report, results []error) error {
	var refused error
	for i, err := range results {
		if err == nil {
			t.reported[reports[i].Outcome]++
			continue
		}
		refused = cmp.Or(refused, fmt.Errorf("report outcome of txn %d: %w", reports[i].TxnID, err))
	}
	return refused
}

// summary is the result of a replay.
type summary struct {
	Attempts int `json:"attempts"`
	Allowed  int `json:"allowed"`
	Blocked  int `json:"blocked"`
	// WouldBlock counts the attempts that would be blocked if every zone in
	// shadow mode were enforced; Blocked ones are among them.
	WouldBlock   int  `json:"would_block"`
	SkippedLines int  `json:"skipped_lines"`
	Complete     bool `json:"complete"` // the whole log was replayed
	// These are there if outcomes were reported.
	ReportedSuccesses *int      `json:"reported_successes,omitempty"`
	ReportedFailures  *int      `json:"reported_failures,omitempty"`
	ElapsedSeconds    float64   `json:"elapsed_seconds"`
	ChecksPerSecond   float64   `json:"checks_per_second"`
	MostWouldBlock    []fullKey `json:"most_would_block"` // by zone, most first
}

// fullKey is a bucket that had no room WouldBlock times, whether its zone is
// enforced or not.
type fullKey struct {
	ZoneID     int64  `json:"zone_id"`
	Key        string `json:"bucket_key"`
	WouldBlock int    `json:"would_block"`
}

func (t *tally) summary(took time.Duration, complete bool) summary {
	s := summary{
		Attempts: t.allowed + t.blocked, Allowed: t.allowed, Blocked: t.blocked, WouldBlock: t.wouldBlock,
		SkippedLines: t.skipped, Complete: complete, ElapsedSeconds: took.Seconds(), MostWouldBlock: []fullKey{},
	}
	if took > 0 {
		s.ChecksPerSecond = float64(s.Attempts) / took.Seconds()
	}
	keys := make([]fullKey, 0, len(t.keys))
	for b, n := range t.keys {
		keys = append(keys, fullKey{ZoneID: b.ZoneID, Key: b.Key, WouldBlock: n})
	}
	slices.SortFunc(keys, func(a, b fullKey) int {
		return cmp.Or(cmp.Compare(a.ZoneID, b.ZoneID), cmp.Compare(b.WouldBlock, a.WouldBlock), cmp.Compare(a.Key, b.Key))
	})
	inZone := map[int64]int{}
	for _, key := range keys {
		if inZone[key.ZoneID]++; inZone[key.ZoneID] <= keysNamed {
			s.MostWouldBlock = append(s.MostWouldBlock, key)
		}
	}
	return s
}
