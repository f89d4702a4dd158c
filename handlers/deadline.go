package handlers

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"velocityd/api"
	"velocityd/handlers/problem"
	"velocityd/service"
)

const (
	// lookUpTimeout is the deadline of each look-up, and inProcessTimeout that of one for Options.InProcess: no other
	// caller waits behind it.
	lookUpTimeout    = 2 * time.Second
	inProcessTimeout = 30 * time.Second
	// defaultWriteTimeout is the deadline of each change unless Options names one.
	defaultWriteTimeout = 5 * time.Second
)

// lookUp calls ask, which must not change anything, with the deadline of look-ups. It
// is interrupted when the caller goes away, unless the request has a body (watched).
func (s *server) lookUp(x *exchange, ask func(ctx context.Context) error) error {
	ctx, cancel := context.WithTimeout(x.Request().Context(), s.timeout(lookUpTimeout))
	defer cancel()
	return ask(ctx)
}

// timeout is the deadline of a look-up or a page, which is usual for callers of a service.
func (s *server) timeout(usual time.Duration) time.Duration {
	if s.InProcess {
		return inProcessTimeout
	}
	return usual
}

// show answers with the result of find, with the deadline of look-ups. absent is the text where the store finds
// nothing, or "" if it always finds something.
func (s *server) show(x *exchange, absent string, find func(ctx context.Context) (answer any, err error)) error {
	return s.lookUp(x, func(ctx context.Context) error {
		answer, err := find(ctx)
		switch {
		case err != nil && absent != "":
			return problem.NotFound(err, absent)
		case err != nil:
			return err
		}
		return x.respondJSON(http.StatusOK, api.MediaJSON, answer)
	})
}

// changeAs is change for a change that is recorded under the name of the caller, the principal.
func (s *server) changeAs(x *exchange, carryOut func(ctx context.Context, principal string) error) error {
	principal, err := s.principal(x)
	if err != nil {
		return err
	}
	return s.change(x, func(ctx context.Context) error { return carryOut(ctx, principal) })
}

// remove answers with status 204 once carryOut has removed something. texts are as those of problem.ReplaceTexts.
func (s *server) remove(
	x *exchange, texts map[error]string, carryOut func(ctx context.Context, principal string) error,
) error {
	if err := s.changeAs(x, carryOut); err != nil {
		return problem.ReplaceTexts(err, texts)
	}
	return x.respondNothing()
}

// change calls carryOut with the deadline of changes. Once begun it is NOT
// interrupted when the caller goes away: the engine would go on, and the result
// would be lost. A caller in this process has its own deadline.
func (s *server) change(x *exchange, carryOut func(ctx context.Context) error) error {
	ctx := x.Request().Context()
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("%w: caller left before the change began: %w", service.ErrBusy, err)
	}
	reason, err := reasonOf(x.Request().Header)
	if err != nil {
		return err
	}
	if s.InProcess {
		return carryOut(service.WithReason(ctx, reason))
	}
	ctx, cancel := context.WithTimeout(service.WithReason(context.WithoutCancel(ctx), reason), s.WriteTimeout)
	defer cancel()
	err = carryOut(ctx)
	if errors.Is(err, context.DeadlineExceeded) && !errors.Is(err, service.ErrBusy) {
		return fmt.Errorf("%w: %w", service.ErrUndecided, err)
	}
	return err
}
