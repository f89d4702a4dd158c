// Package refresh keeps the last reading of something, and reads again when that is too old for a caller. It must not
// know the source.
package refresh

import (
	"context"
	"errors"
	"sync/atomic"
	"time"
)

// Cache reads something whenever its last reading is not good enough any more. One caller reads at a
// time; others wait for that, and share the reading if it is good for them. It may be used by many
// goroutines at once.
type Cache[T any] struct {
	read    func(context.Context) (T, error)
	timeout time.Duration
	turn    chan struct{} // holds one element during a reading
	begun   atomic.Uint64
	last    atomic.Pointer[Reading[T]]
}

// Reading is one reading that has ended.
type Reading[T any] struct {
	Value  T
	Err    error
	Number uint64 // by the order in which readings began, from 1
	Ended  time.Time
}

// errUnread is the error of a reading that has panicked.
var errUnread = errors.New("the reading was not carried out")

// New returns a Cache that reads by read, and has read nothing yet. A reading ends after timeout. It goes on if
// its caller leaves, because others may wait for it.
func New[T any](timeout time.Duration, read func(context.Context) (T, error)) *Cache[T] {
	return &Cache[T]{read: read, timeout: timeout, turn: make(chan struct{}, 1)}
}

// Begun returns how many readings have begun. A reading with a higher number begins later.
func (f *Cache[T]) Begun() uint64 { return f.begun.Load() }

// Last returns the last reading, or nil.
func (f *Cache[T]) Last() *Reading[T] { return f.last.Load() }

// Get returns the last reading if isGood says so, and otherwise reads. The error is that of ctx, which
// ended while another caller was reading.
func (f *Cache[T]) Get(ctx context.Context, isGood func(*Reading[T]) bool) (*Reading[T], error) {
	if last := f.Last(); last != nil && isGood(last) {
		return last, nil
	}
	select {
	case f.turn <- struct{}{}:
		defer func() { <-f.turn }()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	return f.renew(ctx, isGood), nil
}

// RenewBehind reads on a goroutine that run starts, unless a reading is under way, or isGood says that
// the last reading is good.
func (f *Cache[T]) RenewBehind(ctx context.Context, run func(func()), isGood func(*Reading[T]) bool) {
	if last := f.Last(); last != nil && isGood(last) {
		return
	}
	select {
	case f.turn <- struct{}{}:
		run(func() {
			defer func() { <-f.turn }()
			f.renew(ctx, isGood)
		})
	default:
	}
}

// renew reads, unless the last reading, which may have ended just now, is good.
func (f *Cache[T]) renew(ctx context.Context, isGood func(*Reading[T]) bool) *Reading[T] {
	if last := f.Last(); last != nil && isGood(last) {
		return last
	}
	reading := &Reading[T]{Number: f.begun.Add(1), Err: errUnread}
	defer func() {
		reading.Ended = time.Now()
		f.last.Store(reading)
	}()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), f.timeout)
	defer cancel()
	reading.Value, reading.Err = f.read(ctx)
	return reading
}
