package dbtest

import (
	"sync"
	"testing"
)

// Lend returns a function that lends subjects to the subtests of t. A subtest has its subject for itself until its end, and then clear
// makes it fresh for another one. If no subject waits, open makes one, which lives until the end of t. A subject of a subtest that has
// failed is not lent again.
func Lend[S any](t *testing.T, open func(t *testing.T) S, clear func(tb testing.TB, s S)) func(t *testing.T) S {
	t.Helper()
	var mu sync.Mutex
	var idle []S
	return func(sub *testing.T) (s S) {
		sub.Helper()
		mu.Lock()
		last := len(idle) - 1
		if last >= 0 {
			s, idle = idle[last], idle[:last]
		}
		mu.Unlock()
		if last < 0 {
			s = open(t)
		}
		AtEnd(sub, func() {
			if clear(sub, s); sub.Failed() {
				return
			}
			mu.Lock()
			defer mu.Unlock()
			idle = append(idle, s)
		})
		return s
	}
}
