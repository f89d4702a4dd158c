package wforce

import (
	"context"
	"errors"
	"time"

	"velocityd/service"
)

// denial is shown to the user by Dovecot. It is the same for all users, also for those that do not exist.
const denial = "Too many attempts. Try again later."

// verdict is the answer to the command allow.
type verdict struct {
	// -1: refuse; 0: go on. Others would let the login pass after some seconds.
	Status     int               `json:"status"`
	Message    string            `json:"msg"`
	Attributes map[string]string `json:"r_attrs"`
}

func verdictOn(d service.Decision) verdict {
	v := verdict{Attributes: map[string]string{}}
	if d.Blocked {
		v.Status, v.Message = -1, denial
	}
	return v
}

// allow answers whether a login may go on. Dovecot asks again after a right password: that is the same attempt.
func (c *call) allow(ctx context.Context) (any, error) {
	id, open, err := c.place(ctx)
	switch {
	case err != nil:
		return nil, err
	case open != nil:
		return verdictOn(*open), nil
	}
	d, err := c.check(ctx, id)
	return verdictOn(d), err
}

// place returns the id of the attempt that the call is about, and the answer to it if it is open.
func (c *call) place(ctx context.Context) (id string, open *service.Decision, err error) {
	for {
		short, cancel := context.WithTimeout(ctx, recallTime)
		a, open, err := c.search(short, recentAttempt.isUsedUp)
		cancel()
		switch {
		case errors.Is(err, service.ErrBusy) && ctx.Err() == nil:
			id, err = c.recent.useOffline(c.first()) // zones may answer while the database is away
			return id, nil, err
		case err != nil:
			return "", nil, err
		}
		// Calls of the same tuple may have come first.
		if isFree, err := c.recent.change(a, (*recentAttempt).use); isFree || err != nil {
			return a.id(), open, err
		}
	}
}

// report takes the outcome of a login. The answer is the same whether or not there was an attempt.
func (c *call) report(ctx context.Context) (any, error) {
	if c.tuple.PolicyReject || c.tuple.FailType == "policy" || c.tuple.FailType == "internal" {
		return done(), nil // no password was looked at
	}
	outcome := service.OutcomeFailure
	if c.tuple.Success {
		outcome = service.OutcomeSuccess
	}
	ctx, end := c.outlast(ctx)
	defer end()
	isOffline := false
	if id := c.recent.reportOffline(c.first()); id != "" {
		err := c.tell(ctx, id, outcome)
		if isOffline = err == nil; err != nil && !errors.Is(err, service.ErrNotFound) { // not found: the check had failed
			return nil, err
		}
	}
	for {
		a, open, err := c.searchPatiently(ctx)
		if err != nil || open == nil && isOffline {
			return done(), err
		}
		if isFirst, err := c.recent.report(a); err != nil {
			return nil, err
		} else if !isFirst { // reports of the same tuple may have come first
			continue
		}
		return done(), c.settle(ctx, a, open, outcome)
	}
}

// outlast returns a context that ends by reportTime, and not when Dovecot leaves. If too many reports go on, it is ctx
// itself.
func (c *call) outlast(ctx context.Context) (_ context.Context, end func()) {
	if c.late.Take(c.shareKey, 1) != nil {
		return ctx, func() {}
	}
	late, cancel := context.WithTimeout(context.WithoutCancel(ctx), reportTime)
	return late, func() { cancel(); c.late.GiveBack(c.shareKey, 1) }
}

// searchPatiently finds the attempt that a report is about. It asks again while the database is busy, until ctx ends.
func (c *call) searchPatiently(ctx context.Context) (a attempt, open *service.Decision, err error) {
	for pause := firstPause; ; pause *= 2 {
		a, open, err = c.search(ctx, func(n recentAttempt) bool { return n.reported })
		if !errors.Is(err, service.ErrBusy) {
			return a, open, err
		}
		select {
		case <-ctx.Done():
			return a, nil, err
		case <-time.After(pause):
		}
	}
}

// settle reports the outcome of an attempt. It asks for the attempt first if no check was asked, as where an
// application only reports.
func (c *call) settle(ctx context.Context, a attempt, open *service.Decision, outcome service.Outcome) error {
	if open == nil {
		if d, err := c.check(ctx, a.id()); err != nil || d.Blocked || d.Degraded {
			return err
		}
	}
	return c.tell(ctx, a.id(), outcome)
}

// tell reports the outcome of a check.
func (c *call) tell(ctx context.Context, id string, outcome service.Outcome) error {
	err := c.api.Report(ctx, service.Report{AttemptID: id, Outcome: outcome})
	if errors.Is(err, service.ErrConflict) { // the zone's reserve_ttl is over, so the attempt has failed
		return nil
	}
	return err
}
