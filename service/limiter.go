package service

import (
	"context"
	"fmt"
	"time"
)

// Limiter asks a store on behalf of callers that may be wrong or go away: it
// refuses bad checks before the store sees them and gives every check a
// deadline of its own. It is a CheckStore itself.
type Limiter struct {
	store   CheckStore
	timeout time.Duration
}

var _ CheckStore = (*Limiter)(nil)

// NewLimiter returns a Limiter in front of store. After timeout a check that
// the engine has not answered ends in ErrUndecided or ErrBusy. In front of a
// Coalescer it must be above CoalescerOptions.Timeout, by as much as a check may
// wait in its queue.
func NewLimiter(store CheckStore, timeout time.Duration) *Limiter {
	return &Limiter{store: store, timeout: timeout}
}

// Check decides and records one check. See CheckAll for context and errors; a
// refused check is returned as an error that wraps ErrInvalid or ErrNotFound.
func (l *Limiter) Check(ctx context.Context, check Check) (Decision, error) {
	decisions, err := l.CheckAll(ctx, []Check{check})
	if err != nil {
		return Decision{}, err
	}
	return decisions[0], decisions[0].Err
}

// CheckAll decides and records checks as CheckStore says. Once started it is
// NOT interrupted by the caller's cancellation: go-sql-driver would close the
// connection while the engine goes on and counts the attempt
// (go-sql-driver/mysql#863). Only the limiter's own timeout ends it.
func (l *Limiter) CheckAll(ctx context.Context, checks []Check) ([]Decision, error) {
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("%w: caller left before the check began: %w", ErrBusy, err)
	}
	decisions := make([]Decision, len(checks))
	valid := make([]Check, 0, len(checks))
	places := make([]int, 0, len(checks))
	for i, check := range checks {
		if err := check.Validate(); err != nil {
			decisions[i].Err = err
			continue
		}
		valid, places = append(valid, check), append(places, i)
	}
	if len(valid) == 0 {
		return decisions, nil
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), l.timeout)
	defer cancel()
	answers, err := l.store.CheckAll(ctx, valid)
	if err != nil {
		return nil, err
	}
	if len(answers) != len(valid) {
		return nil, fmt.Errorf("%w: store answered %d of %d checks", ErrUndecided, len(answers), len(valid))
	}
	for i, place := range places {
		decisions[place] = answers[i]
	}
	return decisions, nil
}
