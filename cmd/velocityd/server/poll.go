package server

import (
	"context"
	"math/rand/v2"
	"time"
)

// poll calls look after each pause, and with isWoken whenever wake gives something, until ctx
// ends. Without a pause, it waits for wake alone.
func poll[W any](ctx context.Context, pause func() time.Duration, wake <-chan W, look func(isWoken bool)) {
	for {
		var over <-chan time.Time
		if pause != nil {
			over = time.After(pause())
		}
		select {
		case <-ctx.Done():
			return
		case <-wake:
			look(true)
		case <-over:
			look(false)
		}
	}
}

// every is a pause that is always the same.
func every(pause time.Duration) func() time.Duration { return func() time.Duration { return pause } }

// about is a pause between half and one and a half of mean, so that instances do not look at
// the same time.
func about(mean time.Duration) func() time.Duration {
	return func() time.Duration { return mean/2 + rand.N(mean) }
}

// noted is the state that was logged last.
type noted[T comparable] struct{ state T }

// changes reports whether a state differs from the one that was noted, and notes it.
func (n *noted[T]) changes(to T) bool {
	changed := n.state != to
	n.state = to
	return changed
}

// textOf returns the text of an error, or "" for none.
func textOf(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}
