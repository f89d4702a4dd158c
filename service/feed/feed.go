// Package feed reads the newest txns or events once for all who follow them. It must not know any protocol, SQL, or who
// the followers are.
package feed

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"sync"
	"time"
)

const (
	// mostPages is how many of the newest pages the feed has in memory. A follower who is further behind reads the store
	// by himself.
	mostPages = 16
	// slowReaders is how many such followers read at once.
	slowReaders = 2
	// readTimeout is the deadline of one page.
	readTimeout = 10 * time.Second
)

// ErrBroken says that the source could not be read. A follower may follow again from his last position.
var ErrBroken = errors.New("following broke off")

// Source has items with ids, and reads those that are HistoryLag old, page by page.
type Source[T any] interface {
	// Newest returns the id of the newest item, or 0 if there is none.
	Newest(ctx context.Context) (uint64, error)
	// After returns some items with higher ids, by id, and whether there may be more at once.
	After(ctx context.Context, id uint64) (items []T, hasMore bool, err error)
	// ID returns the id of an item.
	ID(item T) uint64
}

// Feed follows a source. While anybody follows, it asks for the next page once in each pause, whatever the number of
// followers: it reads all items, and each follower picks those that match. It may be used by many goroutines at once.
type Feed[T any] struct {
	source  Source[T]
	pause   time.Duration
	readers chan struct{}

	mu      sync.Mutex
	current *reader[T] // nil if nobody follows
}

// New returns a feed that asks the source again after pause.
func New[T any](source Source[T], pause time.Duration) *Feed[T] {
	return &Feed[T]{source: source, pause: pause, readers: make(chan struct{}, slowReaders)}
}

// Step is the progress of one follower.
type Step[T any] struct {
	// Items are those that match, by id. There may be none.
	Items []T
	// Position is the id of the last item that was looked at. Whoever follows again from there misses nothing.
	Position uint64
}

// Follow yields the items that match and are recorded from now on, or have ids above after if it is not 0, in the order
// of their ids and HistoryLag after they were recorded. The first step comes when the position is known, and if nothing
// comes then, a step without items after each pause of the feed. It ends when ctx ends, or with an error that wraps
// ErrBroken.
func (f *Feed[T]) Follow(ctx context.Context, after uint64, matches func(T) bool) iter.Seq2[Step[T], error] {
	return func(yield func(Step[T], error) bool) {
		r := f.join()
		defer f.leave(r)
		at := cursor{position: after, isSet: after != 0}
		for ctx.Err() == nil {
			items, err := f.next(ctx, r, &at)
			if ctx.Err() != nil {
				return
			}
			if err != nil {
				yield(Step[T]{Position: at.position}, fmt.Errorf("%w: %w", ErrBroken, err))
				return
			}
			if !at.isSet {
				continue
			}
			step := Step[T]{}
			for _, item := range items {
				at.position = f.source.ID(item)
				if matches(item) {
					step.Items = append(step.Items, item)
				}
			}
			step.Position = at.position
			if !yield(step, nil) {
				return
			}
		}
	}
}

// cursor is how far one follower is.
type cursor struct {
	position uint64
	isSet    bool // otherwise he begins where the reader is
}

// next returns the items after a cursor, from memory or else from the source, or none after a pause.
func (f *Feed[T]) next(ctx context.Context, r *reader[T], at *cursor) ([]T, error) {
	wasSet := at.isSet
	items, isKnown, changed, err := r.after(at)
	switch {
	case err != nil || len(items) > 0 || at.isSet != wasSet:
		return items, err
	case !isKnown:
		if items, err = f.readAlone(ctx, at.position); err != nil || len(items) > 0 {
			return items, err
		}
	}
	pause := time.NewTimer(f.pause)
	defer pause.Stop()
	select {
	case <-ctx.Done():
	case <-changed:
	case <-pause.C:
	}
	return nil, nil
}

// readAlone reads a page for one follower, a few of whom read at once.
func (f *Feed[T]) readAlone(ctx context.Context, after uint64) (items []T, err error) {
	select {
	case f.readers <- struct{}{}:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	defer func() { <-f.readers }()
	items, _, err = f.read(ctx, after)
	return items, err
}

// read reads one page of all items after an id.
func (f *Feed[T]) read(ctx context.Context, after uint64) (items []T, hasMore bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	return f.source.After(ctx, after)
}

// join counts one more follower, and begins to read if he is the first.
func (f *Feed[T]) join() *reader[T] {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.current == nil {
		ctx, cancel := context.WithCancel(context.Background()) //nolint:gosec // the last follower calls it, by stop
		f.current = &reader[T]{id: f.source.ID, stop: cancel, changed: make(chan struct{})}
		go f.readPages(ctx, f.current)
	}
	f.current.followers++
	return f.current
}

// leave counts one follower less. Without any, the reading ends.
func (f *Feed[T]) leave(r *reader[T]) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if r.followers--; r.followers > 0 {
		return
	}
	r.stop()
	if f.current == r {
		f.current = nil
	}
}
