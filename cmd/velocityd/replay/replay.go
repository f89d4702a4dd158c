// Package replay has the commands replay and backtest. It reads login attempts out of sshd's logs and replays them
// under proposed limits, at their own times, by package backtest. If there is a store, it asks that one check for each
// attempt now. It must not know how the checks are decided.
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
	"velocityd/service/backtest"
)

// busyTries is how often one batch is asked before the replay gives up on a busy store.
const busyTries = 6

// errRulesChanged says that the store normalised keys in another way than the replay.
var errRulesChanged = errors.New("the key rule of a zone was changed during the replay, so outcomes may have been " +
	"reported in another order; replay again")

// Options are the settings of a replay. Setup is required, and a zone.
type Options struct {
	// Setup has the proposals. It must have the zones, whose key rules tell which keys are one bucket.
	Setup backtest.Setup
	// UserZone is the zone whose keys are users, IPZone the zone whose keys are
	// addresses. One of them may be 0: then it is left out.
	UserZone, IPZone int64
	// Latest is the latest time that a line without a year can mean.
	Latest time.Time
	// Store answers a check for each attempt, as one of now. Without it, all attempts passed.
	Store service.Checker
	// Outcomes gets the outcome of each allowed attempt, before the next attempt in
	// one of its buckets is asked about. Nil means that outcomes are not reported.
	Outcomes service.OutcomeStore
	// Batch is how many checks may be asked in one call, 1 to service.MaxChecks.
	Batch int
}

// Run replays a log, and returns the result, whose record are the answers of the store. With an error it returns the
// result of the attempts before it. If ctx ends, Run finishes the running call and returns its error. The error wraps
// ErrNoAttempt if nothing in the whole log could be replayed, ErrUnread if a store was asked and there are attempts
// that could not be read, and service.ErrNotFound if a zone is not in the setup: then nothing was asked.
func Run(ctx context.Context, log io.Reader, o Options) (backtest.Result, error) {
	record, err := backtest.New(o.Setup)
	if err != nil {
		return backtest.Result{}, err
	}
	r := &replayer{Options: o, record: record, rules: map[int64]service.KeyRule{}}
	for _, zone := range o.Setup.Zones {
		r.rules[zone.ID] = zone.Keys
	}
	for _, zone := range []int64{o.UserZone, o.IPZone} {
		if _, exists := r.rules[zone]; zone != 0 && !exists {
			return backtest.Result{}, fmt.Errorf("zone %d: %w", zone, service.ErrNotFound)
		}
	}
	skipped, err := Logins(ctx, log, o.Latest, func(l Login) error { return r.take(ctx, l) })
	err = cmp.Or(err, r.ask(ctx))
	result := record.Result()
	result.IsCut = err != nil
	result.Assumptions = append(result.Assumptions, r.assumptions(skipped)...)
	switch {
	case err != nil:
	case r.asked == 0:
		err = fmt.Errorf("%w that can be replayed: of its %d lines %d are attempts, and each has a user or an address that "+
			"cannot be a key in its zone", ErrNoAttempt, skipped.Lines, r.keyless)
	case o.Store != nil:
		err = skipped.notRead()
	}
	return result, err
}

// replayer replays one log. It is for one goroutine.
type replayer struct {
	Options
	record  *backtest.Replay
	rules   map[int64]service.KeyRule // by which the store normalises keys
	pending []*question               // to be asked together

	asked    int // attempts that were replayed
	keyless  int // attempts whose user and address cannot be keys
	partly   int // attempts that were replayed in one of two zones, because the other cannot have their key
	watched  int // attempts that passed only because a full zone is not enforced
	reported int // outcomes
}

// question is an attempt to ask about. Its check has the keys as the log has them, and the attempt normalised ones.
type question struct {
	attempt  backtest.Attempt
	check    service.Check
	answered bool
}

// take replays the attempts that a login stands for, or adds them to the pending ones. It asks these
// when the batch is full, or when the next one depends on their outcomes.
func (r *replayer) take(ctx context.Context, l Login) error {
	q := r.question(l)
	switch {
	case len(q.check.Buckets) == 0:
		r.keyless += l.Times
		return nil
	case r.UserZone != 0 && r.IPZone != 0 && len(q.check.Buckets) == 1:
		r.partly += l.Times
	}
	for range l.Times {
		if r.Store == nil {
			r.add(q.attempt)
			continue
		}
		if len(r.pending) == r.Batch || r.mustAskBefore(q) {
			if err := r.ask(ctx); err != nil {
				return err
			}
		}
		next := q
		next.attempt.Places = slices.Clone(q.attempt.Places)
		r.pending = append(r.pending, &next)
	}
	return nil
}

// add replays an attempt under the proposals.
func (r *replayer) add(a backtest.Attempt) {
	r.asked++
	r.record.Add(a)
}

// question returns the question for a login. It leaves out a zone in which the login's user or address
// cannot be a key, and so may have no bucket.
func (r *replayer) question(l Login) question {
	q := question{attempt: backtest.Attempt{At: l.At, Outcome: l.Outcome}}
	for _, b := range []service.Bucket{{ZoneID: r.UserZone, Key: l.User}, {ZoneID: r.IPZone, Key: l.Address}} {
		key, err := r.rules[b.ZoneID].Normalize(b.Key)
		normal := service.Bucket{ZoneID: b.ZoneID, Key: key}
		if b.ZoneID == 0 || cmp.Or(err, b.Validate(), normal.Validate()) != nil {
			continue
		}
		q.check.Buckets = append(q.check.Buckets, b)
		q.attempt.Places = append(q.attempt.Places, backtest.Place{Bucket: normal})
	}
	return q
}

// mustAskBefore reports whether the pending checks must be asked, and their outcomes
// reported, before next is asked: one of them shares a bucket with next. Checks without
// a common bucket do not depend on each other's outcomes, so they can be asked
// together.
func (r *replayer) mustAskBefore(next question) bool {
	if r.Outcomes == nil {
		return false
	}
	return slices.ContainsFunc(r.pending, func(q *question) bool {
		return slices.ContainsFunc(q.attempt.Places,
			func(of backtest.Place) bool { return slices.Contains(next.attempt.Places, of) })
	})
}

// ask asks the store about the pending checks, and reports the outcomes of those that were allowed. Checks for which
// the store was busy were not decided, and are asked again. Any other error ends the replay. Those that were answered
// are replayed.
func (r *replayer) ask(ctx context.Context) error {
	var refused error
	isBusy := func(err error) bool { return errors.Is(err, service.ErrBusy) && !errors.Is(err, service.ErrNoKeys) }
	err := retry(ctx, "asked", isBusy, func() (err error) {
		refused, err = r.askOnce(ctx)
		return err
	})
	for _, q := range r.pending {
		if q.answered {
			r.add(q.attempt)
		}
	}
	r.pending = r.pending[:0]
	return cmp.Or(refused, err)
}

// retry does something until its error is none that another try could mend.
func retry(ctx context.Context, does string, isMendable func(error) bool, do func() error) error {
	for try := 1; ; try++ {
		err := do()
		switch {
		case err == nil:
			return nil
		case !isMendable(err) || try == busyTries:
			return fmt.Errorf("%s %d times: %w", does, try, err)
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(service.BusyRetryAfter):
		}
	}
}

// errDegraded is the error of a check that was answered without the database: a replay wants
// the records.
var errDegraded = fmt.Errorf("%w: answered without the database", service.ErrBusy)

// askOnce asks about the pending checks that have no answer yet. It returns the error that ends the replay, or that of
// a question that may be asked again.
func (r *replayer) askOnce(ctx context.Context) (refused, err error) {
	var open []*question
	var checks []service.Check
	for _, q := range r.pending {
		if !q.answered {
			open, checks = append(open, q), append(checks, q.check)
		}
	}
	if len(open) == 0 || ctx.Err() != nil {
		return ctx.Err(), nil
	}
	decisions, err := r.Store.CheckAll(ctx, checks)
	if err != nil {
		return nil, err
	}
	var reports []service.Report
	for i, d := range decisions {
		switch {
		case d.Degraded:
			err = errDegraded
		case errors.Is(d.Err, service.ErrBusy):
			err = d.Err
		case d.Err != nil:
			refused = cmp.Or(refused, d.Err)
		default:
			if r.answer(open[i], d) && r.Outcomes != nil {
				refused = cmp.Or(refused, errRulesChanged)
			}
			if !d.Blocked {
				reports = append(reports, service.Report{TxnID: d.TxnID(), Outcome: open[i].attempt.Outcome})
			}
		}
	}
	return cmp.Or(r.report(ctx, reports), refused), err
}

// answer notes the answer to a question, and says whether the store has other buckets than the replay.
func (r *replayer) answer(q *question, d service.Decision) (others bool) {
	q.answered, q.attempt.ID, q.attempt.Blocked = true, d.TxnID(), d.Blocked
	if d.WouldBlock && !d.Blocked {
		r.watched++
	}
	for i, v := range d.Verdicts[:min(len(d.Verdicts), len(q.attempt.Places))] {
		place := &q.attempt.Places[i]
		others = others || v.Bucket != place.Bucket
		place.TxnID, place.WouldBlock, place.Reason = v.TxnID, v.WouldBlock, v.Reason
	}
	return others
}

// report reports outcomes, in order. It reports again after a lost answer, because the same outcome twice changes
// nothing.
func (r *replayer) report(ctx context.Context, reports []service.Report) error {
	if r.Outcomes == nil || len(reports) == 0 {
		return nil
	}
	var results []error
	isLost := func(err error) bool { return errors.Is(err, service.ErrBusy) || errors.Is(err, service.ErrUndecided) }
	refused := retry(ctx, "reported", isLost, func() (err error) {
		results, err = r.Outcomes.ReportAll(ctx, reports)
		return err
	})
	for i, err := range results {
		if err == nil {
			r.reported++
			continue
		}
		refused = cmp.Or(refused, fmt.Errorf("report outcome of txn %d: %w", reports[i].TxnID, err))
	}
	return refused
}

// assumptions returns the sentences about the limits of the result that come from the log and from the store.
func (r *replayer) assumptions(s Skipped) (list []string) {
	if r.Store != nil {
		list = append(list, "All attempts were asked as if they came now: the times in the log are those of the proposals.")
	}
	for _, one := range []struct {
		number int
		text   string
	}{
		{r.reported, "The outcomes of %d attempts that passed were reported."},
		{r.watched, "%d attempts passed that a zone would have blocked if it were enforced."},
		{r.partly, "%d attempts are replayed in one zone alone, because their user or address cannot be a key in the other."},
		{r.keyless, "%d attempts have no user or address that can be a key: they are not replayed."},
		{s.Timeless, "%d attempts of the log have no time that can be read: they are not replayed."},
		{s.Unread, "%d lines of the log look like attempts and could not be read."},
	} {
		if one.number > 0 {
			list = append(list, fmt.Sprintf(one.text, one.number))
		}
	}
	return list
}
