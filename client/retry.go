package client

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"velocityd/service"
)

// Pauses between tries, where the service does not say how long to wait. They
// double from the first, and vary by half, so that callers do not come back all at
// once.
const (
	firstPause = 50 * time.Millisecond
	lastPause  = time.Second
)

// insist tries until there is an answer, or the deadline of ctx would pass before
// the next try. If an earlier try may have been counted, its error is what is
// returned in place of one that says that nothing was.
func (c *Client) insist(ctx context.Context, try func(ctx context.Context) error) error {
	ctx, cancel := c.limited(ctx)
	defer cancel()
	var lost error
	for tries := 0; ; tries++ {
		err := try(ctx)
		var failed *failure
		if err == nil || !errors.As(err, &failed) {
			return err
		}
		busy := errors.Is(err, service.ErrBusy)
		switch {
		case lost == nil && errors.Is(err, service.ErrUndecided):
			lost = err
		case lost != nil && busy:
			err = fmt.Errorf("%w; asked again: %v", lost, failed.cause) //nolint:errorlint // it must not say that nothing was counted
		}
		if !failed.again || ctx.Err() != nil {
			return err
		}
		length := failed.after
		if length == 0 {
			length = pauseAfter(tries)
		}
		if deadline, _ := ctx.Deadline(); time.Until(deadline) <= length {
			return err
		}
		if interrupted := c.pause(ctx, length); interrupted != nil {
			return fmt.Errorf("%w; not asked again: %w", err, interrupted)
		}
	}
}

// pauseAfter is how long to wait after so many tries before the last one.
func pauseAfter(tries int) time.Duration {
	length := min(firstPause<<min(tries, 10), lastPause)
	return length/2 + rand.N(length)
}

// pause waits, or returns why ctx has ended.
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
