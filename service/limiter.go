package service

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"velocityd/service/refresh"
)

// ZoneLister lists all zones.
type ZoneLister interface {
	Zones(ctx context.Context) ([]Zone, error)
}

// Limiter is the front of a store, and the Checker of callers. It refuses invalid checks before
// the store sees them, normalises keys by the rules of their zones, and gives every call a
// deadline, which does not depend on whether the caller goes away.
//
// It remembers the key rules of the zones. Each check tells the store by which rules its keys
// were normalised. If a zone has another rule now, the store answers ErrStaleKey and does not
// decide the check; the Limiter then reads the rules again and asks once more. So an edited
// zone takes effect at the next check.
type Limiter struct {
	store   CheckStore
	options LimiterOptions
	rules   atomic.Pointer[keyRules] // nil: keys are not normalised
	fresh   *refresh.Cache[struct{}] // reads the zones
}

var _ Checker = (*Limiter)(nil)

// LimiterOptions say how a Limiter asks its store.
type LimiterOptions struct {
	// Timeout is after how long a check that the store has not answered ends in ErrUndecided or
	// ErrBusy. In front of a Coalescer it must be longer than CoalescerOptions.Timeout; the
	// difference is how long a check may wait in its queue.
	Timeout time.Duration
	// Zones has the rules by which keys are normalised. Without it keys are NOT normalised.
	Zones ZoneLister
	// Keys makes the pseudonyms that stand for keys in zones with key_form hmac, so that the store
	// never sees those keys. The verdicts name the normalised keys all the same. Without a key in it
	// such checks are refused with ErrNoKeys.
	Keys *Keyring
	// Observe, if not nil, is told of each call when it is answered, on its goroutine: how long it took, how
	// many checks it had, and the answer. It must not keep or change the decisions.
	Observe func(took time.Duration, checks int, decisions []Decision, err error)
}

// NewLimiter returns a Limiter in front of store. It reads no zone yet.
func NewLimiter(store CheckStore, o LimiterOptions) *Limiter {
	l := &Limiter{store: store, options: o}
	if o.Zones != nil {
		l.Learn(nil)
	}
	l.fresh = refresh.New(reloadTimeout, func(ctx context.Context) (read struct{}, err error) {
		zones, err := o.Zones.Zones(ctx)
		if err == nil {
			l.Learn(zones)
		}
		return read, err
	})
	return l
}

// Learn tells a Limiter that normalises keys the rules of zones, which must be all of them, as they
// are or as they were last seen. If a rule is another one by now, the store says so.
func (l *Limiter) Learn(zones []Zone) { l.rules.Store(newKeyRules(zones)) }

// maxRuleReads bounds how often one call may find that a rule has changed.
const maxRuleReads = 3

// CheckAll decides and records checks as Checker says; the verdicts name the
// normalised keys. It does not change checks, but the store may read them and
// their buckets even after a call that failed. Once started it is NOT interrupted
// by the caller's cancellation: go-sql-driver would close the connection while the
// engine goes on and counts the attempt (go-sql-driver/mysql#863). Only the
// limiter's own timeout ends it.
func (l *Limiter) CheckAll(ctx context.Context, checks []Check) (decisions []Decision, err error) {
	began := time.Now()
	if observe := l.options.Observe; observe != nil {
		defer func() { observe(time.Since(began), len(checks), decisions, err) }()
	}
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("%w: caller left before the check began: %w", ErrBusy, err)
	}
	ctx = context.WithoutCancel(ctx)
	deadline := began.Add(l.options.Timeout)
	q := questions{checks: checks, keys: l.options.Keys}
	for reads := 0; ; reads++ {
		err := q.prepare(l.rules.Load(), reads == 0)
		asks := err == nil && len(q.asked) > 0
		if asks {
			call := Call{Checks: q.asked, Deadline: deadline}
			var answers []Decision
			if answers, err = call.Fit(l.store.CheckAll(ctx, call)); err == nil {
				err = q.take(answers) // ErrStaleKey: some checks must be asked again
			}
		}
		switch {
		case !errors.Is(err, ErrStaleKey):
			return q.result(err)
		case reads == maxRuleReads:
			return q.result(fmt.Errorf("%w: key rules changed %d times during the check", ErrBusy, reads))
		}
		if err := l.reload(ctx, deadline); err != nil && (asks || q.mustKnow) {
			return q.result(err)
		} // otherwise the rules are taken as they are known: the store may be away
	}
}

// reloadTimeout bounds one reading of the zones. It is short, because a store that is away may
// be silent.
const reloadTimeout = time.Second

// reload reads the zones. After a change of a zone many checks need that at once: one of them reads for all
// that asked before it began.
func (l *Limiter) reload(ctx context.Context, deadline time.Time) error {
	asked := l.fresh.Begun()
	if soon := time.Now().Add(reloadTimeout); soon.Before(deadline) {
		deadline = soon
	}
	ctx, cancel := context.WithDeadline(ctx, deadline)
	defer cancel()
	reading, err := l.fresh.Get(ctx, func(r *refresh.Reading[struct{}]) bool { return r.Err == nil && r.Number > asked })
	switch {
	case err != nil:
		return fmt.Errorf("%w: wait for another reading of the key rules: %w", ErrBusy, err)
	case reading.Err != nil:
		return fmt.Errorf("read key rules: %w", reading.Err)
	}
	return nil
}

// questions is the state of one call of a Limiter. Mostly the store is asked once for all
// checks, and its answers are the result as they are: then places, open and decisions are nil.
type questions struct {
	checks []Check // the caller's
	keys   *Keyring
	asked  []Check       // of the store, with normal keys or pseudonyms
	named  [][]Bucket    // the buckets with normal keys of checks in asked that have pseudonyms; nil: no check has
	spread map[int][]int // of the checks in asked that named a bucket twice, the places of their buckets
	places []int         // of asked in checks; nil: the same
	open   []int         // places of the checks that were not answered yet; nil: all
	// decisions are by place, as far as there are any; decided says that the store
	// has answered some.
	decisions []Decision
	decided   bool
	mustKnow  bool // the rules do not know a zone, which may keep pseudonyms
}

// prepare fills asked with the open checks, and refuses those that are invalid. If a key does
// not fit rules that may be old, the error is ErrStaleKey and the check is not refused yet.
func (q *questions) prepare(rules *keyRules, mayBeOld bool) error {
	n := len(q.checks)
	if q.open != nil {
		n = len(q.open)
	}
	q.asked, q.places, q.named, q.spread = make([]Check, 0, n), nil, nil, nil
	if rules != nil && rules.hides {
		q.named = make([][]Bucket, 0, n)
	}
	for i := range n {
		if q.open != nil {
			i = q.open[i]
		}
		check := q.checks[i]
		err := check.Validate()
		if err == nil && mayBeOld && len(q.keys.Keys()) > 0 && rules.lacks(check) {
			q.mustKnow = true // a key of a zone that keeps pseudonyms must not leave
			return ErrStaleKey
		}
		if err == nil {
			check, err = rules.normalize(check)
			if err == nil && check.repeats() {
				check = q.merge(check)
			}
			if err == nil && q.named != nil {
				check, err = q.hide(check)
			}
			if err != nil && mayBeOld {
				return ErrStaleKey
			}
		}
		if err != nil {
			q.keepByPlace(i)
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

// merge returns the next check to be asked with each bucket once, and notes the places of all.
func (q *questions) merge(check Check) Check {
	check, places := check.distinct()
	if q.spread == nil {
		q.spread = map[int][]int{}
	}
	q.spread[len(q.asked)] = places
	return check
}

// hide puts pseudonyms into a check with normal keys, if a zone keeps them, and notes in named
// which keys they stand for.
func (q *questions) hide(check Check) (Check, error) {
	if !slices.ContainsFunc(check.KeyRules, KeyRule.hides) {
		q.named = append(q.named, nil)
		return check, nil
	}
	hidden, err := q.keys.hide(check)
	if err == nil {
		q.named = append(q.named, check.Buckets)
	}
	return hidden, err
}

// keepByPlace makes decisions and places, which are needed as soon as some checks are not
// asked. So far asked holds the first n checks.
func (q *questions) keepByPlace(n int) {
	if q.decisions != nil {
		return
	}
	q.decisions, q.places = make([]Decision, len(q.checks)), make([]int, n, len(q.checks))
	for i := range q.places {
		q.places[i] = i
	}
}

// take puts the store's answers in their places. The error is ErrStaleKey if some checks have
// stale keys: they are open again.
func (q *questions) take(answers []Decision) error {
	for i, buckets := range q.named {
		if buckets != nil {
			answers[i] = answers[i].standFor(buckets, q.asked[i].Named)
		}
	}
	for i, places := range q.spread {
		answers[i] = answers[i].spread(places)
	}
	if q.decisions == nil {
		if !slices.ContainsFunc(answers, isStale) {
			q.decisions = answers
			return nil
		}
		q.keepByPlace(len(answers))
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

// result returns the decisions. err is the error of the checks that are open; if nothing was
// decided, it is the error of the whole call.
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

func isStale(d Decision) bool { return errors.Is(d.Err, ErrStaleKey) }
