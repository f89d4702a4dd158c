package service

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"time"
)

// ZoneLister tells the zones there are.
type ZoneLister interface {
	Zones(ctx context.Context) ([]Zone, error)
}

// Limiter asks a store on behalf of callers that may be wrong or go away: it
// refuses bad checks before the store sees them, brings keys into the form that
// their zones want, and gives every call a deadline of its own. It is a CheckStore
// itself.
//
// It remembers the zones' key rules but decides nothing by them: each check
// tells the store by which rules it was normalised, and a store whose zone has
// another rule by now answers ErrStaleKey and has not decided it. Then the rules
// are read anew: an edited zone takes effect at the next check.
type Limiter struct {
	store   CheckStore
	timeout time.Duration
	zones   ZoneLister // nil: keys are asked as they come
	rules   atomic.Pointer[keyRules]
}

var _ CheckStore = (*Limiter)(nil)

// NewLimiter returns a Limiter in front of store that leaves keys as they come.
// After timeout a check that the engine has not answered ends in ErrUndecided or
// ErrBusy. In front of a Coalescer it must be above CoalescerOptions.Timeout, by
// as much as a check may wait in its queue.
func NewLimiter(store CheckStore, timeout time.Duration) *Limiter {
	return &Limiter{store: store, timeout: timeout}
}

// NewNormalizingLimiter is NewLimiter for a store that keeps keys as they come,
// but whose zones may want them in another form. Nothing is read yet.
func NewNormalizingLimiter(store CheckStore, zones ZoneLister, timeout time.Duration) *Limiter {
	l := &Limiter{store: store, timeout: timeout, zones: zones}
	l.rules.Store(newKeyRules(nil))
	return l
}

// maxRuleReads bounds how often one call may find that a rule has changed.
const maxRuleReads = 3

// CheckAll decides and records checks as CheckStore says; the verdicts name the
// normalised keys. It does not change checks, but the store may read them and
// their buckets even after a call that failed. Once started it is NOT interrupted
// by the caller's cancellation: go-sql-driver would close the connection while the
// engine goes on and counts the attempt (go-sql-driver/mysql#863). Only the
// limiter's own timeout ends it.
func (l *Limiter) CheckAll(ctx context.Context, checks []Check) ([]Decision, error) {
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("%w: caller left before the check began: %w", ErrBusy, err)
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), l.timeout)
	defer cancel()
	q := questions{checks: checks}
	for reads := 0; ; reads++ {
		err := q.prepare(l.rules.Load(), reads == 0)
		if err == nil && len(q.asked) > 0 {
			err = l.ask(ctx, &q)
		}
		switch {
		case !errors.Is(err, ErrStaleKey):
			return q.result(err)
		case reads == maxRuleReads:
			return q.result(fmt.Errorf("%w: key rules changed %d times during the check", ErrBusy, reads))
		}
		if err := l.reload(ctx); err != nil {
			return q.result(err)
		}
	}
}

// ask puts what is asked to the store. The error speaks of all of it, but for
// ErrStaleKey, which says that some of it is to be asked again.
func (l *Limiter) ask(ctx context.Context, q *questions) error {
	answers, err := l.store.CheckAll(ctx, q.asked)
	if err != nil {
		return err
	}
	if len(answers) != len(q.asked) {
		return fmt.Errorf("%w: store answered %d of %d checks", ErrUndecided, len(answers), len(q.asked))
	}
	return q.take(answers)
}

func (l *Limiter) reload(ctx context.Context) error {
	zones, err := l.zones.Zones(ctx)
	if err != nil {
		return fmt.Errorf("read key rules: %w", err)
	}
	l.rules.Store(newKeyRules(zones))
	return nil
}

// questions are the checks of one call on their way. Mostly the store is asked for
// all of them at once, and its answers are the result as they are: then places,
// open and decisions are nil.
type questions struct {
	checks []Check // the caller's
	asked  []Check // of the store, with normal keys
	places []int   // of asked in checks; nil: the same
	open   []int   // places of the checks that were not answered yet; nil: all
	// decisions are by place, as far as there are any; decided says that the store
	// has answered some.
	decisions []Decision
	decided   bool
}

// prepare chooses what the store is asked of what is open, and refuses the rest. If
// the rules may be old, nobody is refused by them: then the error is ErrStaleKey.
func (q *questions) prepare(rules *keyRules, mayBeOld bool) error {
	n := len(q.checks)
	if q.open != nil {
		n = len(q.open)
	}
	q.asked, q.places = make([]Check, 0, n), nil
	for i := range n {
		if q.open != nil {
			i = q.open[i]
		}
		check := q.checks[i]
		err := check.Validate()
		if err == nil {
			check, err = rules.normalize(check)
			if err != nil && mayBeOld {
				return ErrStaleKey
			}
		}
		if err != nil {
			q.part(i)
			q.decisions[i].Err = err
			continue
		}
		q.asked = append(q.asked, check)
		if q.decisions != nil {
			q.places = append(q.places, i)
		}
	}
	return nil
}

// part keeps decisions by place from now on; asked are the first n checks so far.
func (q *questions) part(n int) {
	if q.decisions != nil {
		return
	}
	q.decisions, q.places = make([]Decision, len(q.checks)), make([]int, n, len(q.checks))
	for i := range q.places {
		q.places[i] = i
	}
}

// take puts the store's answers in their places. The error is ErrStaleKey if some
// of them are none.
func (q *questions) take(answers []Decision) error {
	if q.decisions == nil {
		if !slices.ContainsFunc(answers, isStale) {
			q.decisions = answers
			return nil
		}
		q.part(len(answers))
	}
	q.open = nil
	for i, place := range q.places {
		if isStale(answers[i]) {
			q.open = append(q.open, place)
			continue
		}
		q.decisions[place], q.decided = answers[i], true
	}
	if q.open != nil {
		return ErrStaleKey
	}
	return nil
}

// result returns the decisions. An error is that of what is open, and of the whole
// call if nothing was decided.
func (q *questions) result(err error) ([]Decision, error) {
	if err == nil {
		return q.decisions, nil
	}
	if !q.decided {
		return nil, err
	}
	for _, place := range q.open {
		if q.decisions[place].Err == nil {
			q.decisions[place].Err = err
		}
	}
	return q.decisions, nil
}
