package client

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"syscall"
	"time"

	"velocityd/service"
)

// Pauses between tries, if the service does not say how long to wait. They double from
// the first to the last, and vary by half, so that callers do not all ask again at the
// same time.
const (
	firstPause = 50 * time.Millisecond
	lastPause  = time.Second
)

// longestTry bounds the wait of one try, so that an instance that hangs does not use up the time of the
// call.
const longestTry = 2 * time.Second

// mostRefused bounds the tries at a port that refuses connections, so that a user does not wait a second for a service
// that is not there. With the pauses between them, three tries take a quarter of a second, which is enough for a proxy
// to notice.
const mostRefused = 3

// retry tries until there is an answer, or until the deadline of ctx would pass before
// the next try, or until the budget of tries is spent. If an earlier try may have been counted, retry
// returns its error and not a later ErrBusy, which would mean that nothing was counted. It counts the tries
// in o.
func (c *Client) retry(ctx context.Context, o *Observation, try func(ctx context.Context) error) error {
	ctx, cancel := c.limited(ctx)
	defer cancel()
	var lost error
	paid := 0.0
	for tries := 0; ; tries++ {
		err := within(ctx, c.tryTime, try)
		o.Attempts++
		share := 1 / float64(max(o.Batch, 1))
		var failed *failure
		switch {
		case err == nil:
			c.budget.reward(max(paid, tryReward*share))
			return nil
		case !errors.As(err, &failed):
			return err
		}
		busy := errors.Is(err, service.ErrBusy)
		switch {
		case lost == nil && errors.Is(err, service.ErrUndecided):
			lost = err
		case lost != nil && busy:
			err = fmt.Errorf("%w; asked again: %v", lost, failed.cause) //nolint:errorlint // must not wrap ErrBusy, see above
		}
		if !failed.again || errors.Is(err, syscall.ECONNREFUSED) && o.Attempts >= mostRefused {
			return err
		}
		length := failed.after
		if length == 0 {
			length = pauseAfter(tries)
		}
		if deadline, _ := ctx.Deadline(); time.Until(deadline) <= length {
			return err
		}
		if !c.budget.take(share) {
			return fmt.Errorf("%w; not asked again, because too much has failed lately", err)
		}
		paid = retryPrice * share
		if interrupted := c.pause(ctx, length); interrupted != nil {
			return fmt.Errorf("%w; not asked again: %w", err, interrupted)
		}
	}
}

// within calls try with a context that ends with ctx, and after length at the latest.
func within(ctx context.Context, length time.Duration, try func(ctx context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, length)
	defer cancel()
	return try(ctx)
}

// pauseAfter returns how long to wait after a try that followed so many others.
func pauseAfter(tries int) time.Duration {
	length := min(firstPause<<min(tries, 10), lastPause)
	return length/2 + rand.N(length)
}

// pause waits for length. It returns the error of ctx as soon as that ends.
func pause(ctx context.Context, length time.Duration) error {
	timer := time.NewTimer(length)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
