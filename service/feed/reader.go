package feed

import (
	"context"
	"slices"
	"sync"
	"time"
)

// reader is the reading for all followers, from the first one to the last, or to an error.
type reader[T any] struct {
	id        func(T) uint64
	stop      context.CancelFunc
	followers int // guarded by Feed.mu

	mu       sync.Mutex
	hasBegun bool
	pages    []page[T] // the newest
	position uint64    // of the last item that was read
	err      error
	changed  chan struct{} // closed at the next change
}

// page is some items that follow one another.
type page[T any] struct {
	after, last uint64 // the position before them, and that of the last one
	items       []T
}

// after returns the items that are known after a place, which it sets if it is not set. If there are none, isKnown says
// whether that is because nothing newer was read; changed is closed when something is.
func (r *reader[T]) after(at *cursor) (items []T, isKnown bool, changed <-chan struct{}, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case r.err != nil:
		return nil, false, nil, r.err
	case !r.hasBegun:
		return nil, true, r.changed, nil
	case !at.isSet:
		*at = cursor{position: r.position, isSet: true}
	}
	if at.position >= r.position {
		return nil, true, r.changed, nil
	}
	for _, p := range r.pages {
		if p.after <= at.position && at.position < p.last {
			first := slices.IndexFunc(p.items, func(item T) bool { return r.id(item) > at.position })
			return p.items[first:], true, nil, nil
		}
	}
	return nil, false, r.changed, nil
}

// readPages reads page after page for r until ctx ends or the source fails. Then nobody joins r any more.
func (f *Feed[T]) readPages(ctx context.Context, r *reader[T]) {
	newest, err := f.newest(ctx)
	if err == nil {
		r.begin(newest)
	}
	for err == nil {
		var items []T
		var hasMore bool
		if items, hasMore, err = f.read(ctx, newest); err != nil {
			break
		}
		if len(items) > 0 {
			newest = r.add(newest, items)
		}
		if (!hasMore || len(items) == 0) && !sleep(ctx, f.pause) {
			return
		}
	}
	f.mu.Lock()
	if f.current == r {
		f.current = nil
	}
	f.mu.Unlock()
	r.fail(err)
}

// newest returns the id of the newest item, or 0 if there is none.
func (f *Feed[T]) newest(ctx context.Context) (uint64, error) {
	ctx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	return f.source.Newest(ctx)
}

// begin makes known from which item on the reader reads.
func (r *reader[T]) begin(position uint64) {
	r.change(func() { r.hasBegun, r.position = true, position })
}

// add makes a page known, and returns the position behind it.
func (r *reader[T]) add(after uint64, items []T) (last uint64) {
	last = r.id(items[len(items)-1])
	r.change(func() {
		if r.pages = append(r.pages, page[T]{after, last, items}); len(r.pages) > mostPages {
			r.pages = append([]page[T](nil), r.pages[1:]...)
		}
		r.position = last
	})
	return last
}

// fail tells all followers that the reader has ended.
func (r *reader[T]) fail(err error) { r.change(func() { r.err = err }) }

// change carries out a change, and wakes those who wait for one.
func (r *reader[T]) change(carryOut func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	carryOut()
	close(r.changed)
	r.changed = make(chan struct{})
}

// sleep waits, and reports whether ctx goes on.
func sleep(ctx context.Context, length time.Duration) bool {
	timer := time.NewTimer(length)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}
