// Package feed reads the newest history once for all who follow it. It must not know any protocol, SQL, or who the
// followers are.
package feed

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"sync"
	"time"

	"velocityd/service"
)

const (
	// mostPages is how many of the newest pages the feed has in memory. A follower who is further behind reads the store by
	// himself.
	mostPages = 16
	// slowReaders is how many such followers read at once.
	slowReaders = 2
	// readTimeout is the deadline of one page.
	readTimeout = 10 * time.Second
)

// ErrBroken says that the history could not be read. A follower may follow again from his last position.
var ErrBroken = errors.New("following the history broke off")

// Feed follows the history of a store. While anybody follows, it asks for the next page once in each pause, whatever
// the number of followers: it reads all txns, and each follower picks those that match. It may be used by many
// goroutines at once.
type Feed struct {
	store   service.HistoryStore
	pause   time.Duration
	readers chan struct{}

	mu      sync.Mutex
	current *run // nil if nobody follows
}

// New returns a feed that asks the store again after pause.
func New(store service.HistoryStore, pause time.Duration) *Feed {
	return &Feed{store: store, pause: pause, readers: make(chan struct{}, slowReaders)}
}

// Step is the progress of one follower.
type Step struct {
	// Txns are those that match, by id. There may be none.
	Txns []service.Txn
	// Position is the id of the last txn that was looked at. Whoever follows again from there misses nothing.
	Position uint64
}

// Follow yields the txns of a query that are recorded from now on, or after the query's Cursor if it is not 0, in the
// order of their ids and HistoryLag after they were recorded. It looks at no bound of time, Order and Limit. The first
// step comes when the position is known, and if nothing comes then, a step without txns after each pause of the feed. It
// ends when ctx ends, or with an error that wraps
// ErrBroken.
func (f *Feed) Follow(ctx context.Context, query service.HistoryQuery) iter.Seq2[Step, error] {
	query.Since, query.Until = time.Time{}, time.Time{}
	return func(yield func(Step, error) bool) {
		r := f.join()
		defer f.leave(r)
		at := place{position: query.Cursor, isSet: query.Cursor != 0}
		for ctx.Err() == nil {
			txns, err := f.next(ctx, r, &at)
			if ctx.Err() != nil {
				return
			}
			if err != nil {
				yield(Step{Position: at.position}, fmt.Errorf("%w: %w", ErrBroken, err))
				return
			}
			if !at.isSet {
				continue
			}
			step := Step{}
			for _, t := range txns {
				at.position = t.ID
				if query.Matches(t) {
					step.Txns = append(step.Txns, t)
				}
			}
			step.Position = at.position
			if !yield(step, nil) {
				return
			}
		}
	}
}

// place is how far one follower is.
type place struct {
	position uint64
	isSet    bool // otherwise he begins where the run is
}

// next returns the txns after a place, from memory or else from the store, or none after a pause.
func (f *Feed) next(ctx context.Context, r *run, at *place) ([]service.Txn, error) {
	wasSet := at.isSet
	txns, isKnown, changed, err := r.after(at)
	switch {
	case err != nil || len(txns) > 0 || at.isSet != wasSet:
		return txns, err
	case !isKnown:
		if txns, err = f.readAlone(ctx, at.position); err != nil || len(txns) > 0 {
			return txns, err
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
func (f *Feed) readAlone(ctx context.Context, after uint64) ([]service.Txn, error) {
	select {
	case f.readers <- struct{}{}:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	defer func() { <-f.readers }()
	page, err := f.read(ctx, after)
	return page.Txns, err
}

// read reads one page of all txns after an id.
func (f *Feed) read(ctx context.Context, after uint64) (service.HistoryPage, error) {
	ctx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	return f.store.History(ctx, service.HistoryQuery{Order: service.OldestFirst, Cursor: after, Limit: service.MaxHistoryPage})
}

// join counts one more follower, and begins to read if he is the first.
func (f *Feed) join() *run {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.current == nil {
		ctx, cancel := context.WithCancel(context.Background())
		f.current = &run{stop: cancel, changed: make(chan struct{})}
		go f.carryOut(ctx, f.current)
	}
	f.current.followers++
	return f.current
}

// leave counts one follower less. Without any, the reading ends.
func (f *Feed) leave(r *run) {
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
