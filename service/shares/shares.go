// Package shares divides a bounded number of things, such as exports at once, among callers. It must not know the
// things or the callers.
package shares

import (
	"context"
	"fmt"
	"slices"
	"sync"
)

// Pool bounds how much of something callers have at once, and how much of it one caller has, so that one of them
// keeps no other out. It may be used by many goroutines at once.
type Pool[K comparable] struct {
	Of   string // the things, in errors: exports
	Most int    // in all; 0 means any number
	Each int    // of one caller; 0 means any number

	mu    sync.Mutex
	taken int
	by    map[K]int // of each caller that has some
	queue []*waiter[K]
}

// waiter is a caller that waits for one thing. ready is closed when it has that.
type waiter[K comparable] struct {
	by    K
	ready chan struct{}
}

// NewHalves returns a Pool of which one caller gets half, or one where there is only one.
func NewHalves[K comparable](most int, of string) *Pool[K] {
	return &Pool[K]{Of: of, Most: most, Each: max(1, most/2)}
}

// FullError says why a caller gets nothing more. Its text says whether all is taken, or its share.
type FullError struct {
	of         string
	most, each int
	isShare    bool
}

// Error implements error. The text names no caller.
func (e *FullError) Error() string {
	if e.isShare {
		return fmt.Sprintf("of the %d %s that are allowed at once, this caller has its share, %d", e.most, e.of, e.each)
	}
	return fmt.Sprintf("all %d %s that are allowed at once are taken", e.most, e.of)
}

// Take takes n for a caller, to be given back with GiveBack. The error is a FullError.
func (s *Pool[K]) Take(by K, n int) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.take(by, n)
}

func (s *Pool[K]) take(by K, n int) error {
	isShare := s.Each > 0 && s.by[by]+n > s.Each
	if isShare || s.Most > 0 && s.taken+n > s.Most {
		return &FullError{s.Of, s.Most, s.Each, isShare}
	}
	s.taken += n
	if s.by == nil {
		s.by = map[K]int{}
	}
	s.by[by] += n
	return nil
}

// Wait takes one for a caller as soon as it is its turn. Callers with their share let others pass. The error is the
// FullError of the begin if ctx ends before.
func (s *Pool[K]) Wait(ctx context.Context, by K) error {
	s.mu.Lock()
	full := s.take(by, 1)
	w := &waiter[K]{by, make(chan struct{})}
	if full != nil {
		s.queue = append(s.queue, w)
	}
	s.mu.Unlock()
	if full == nil {
		return nil
	}
	select {
	case <-w.ready:
		return nil
	case <-ctx.Done():
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	i := slices.Index(s.queue, w)
	if i < 0 {
		return nil // it came at the same moment
	}
	s.queue = slices.Delete(s.queue, i, i+1)
	return full
}

// GiveBack gives back n of a caller, and hands them to waiting callers.
func (s *Pool[K]) GiveBack(by K, n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.taken -= n
	if s.by[by] -= n; s.by[by] == 0 {
		delete(s.by, by)
	}
	s.queue = slices.DeleteFunc(s.queue, func(w *waiter[K]) bool {
		if s.taken >= s.Most || s.take(w.by, 1) != nil {
			return false
		}
		close(w.ready)
		return true
	})
}

// Taken returns how much is taken in all.
func (s *Pool[K]) Taken() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.taken
}
