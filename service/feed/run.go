package feed

import (
	"context"
	"slices"
	"sync"
	"time"

	"velocityd/service"
)

// run is the reading for all followers, from the first one to the last, or to an error.
type run struct {
	stop      context.CancelFunc
	followers int // guarded by Feed.mu

	mu       sync.Mutex
	hasBegun bool
	pages    []page // the newest
	position uint64 // of the last txn that was read
	err      error
	changed  chan struct{} // closed at the next change
}

// page is some txns that follow one another.
type page struct {
	after uint64 // the position before them
	txns  []service.Txn
}

// after returns the txns that are known after a place, which it sets if it is not set. If there are none, isKnown says
// whether that is because nothing newer was read; changed is closed when something is.
func (r *run) after(at *place) (txns []service.Txn, isKnown bool, changed <-chan struct{}, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case r.err != nil:
		return nil, false, nil, r.err
	case !r.hasBegun:
		return nil, true, r.changed, nil
	case !at.isSet:
		*at = place{position: r.position, isSet: true}
	}
	if at.position >= r.position {
		return nil, true, r.changed, nil
	}
	for _, p := range r.pages {
		if p.after <= at.position && at.position < p.txns[len(p.txns)-1].ID {
			first := slices.IndexFunc(p.txns, func(t service.Txn) bool { return t.ID > at.position })
			return p.txns[first:], true, nil, nil
		}
	}
	return nil, false, r.changed, nil
}

// carryOut reads page after page for r until ctx ends or the store fails. Then nobody joins r any more.
func (f *Feed) carryOut(ctx context.Context, r *run) {
	newest, err := f.newest(ctx)
	if err == nil {
		r.begin(newest)
	}
	for err == nil {
		var read service.HistoryPage
		if read, err = f.read(ctx, newest); err != nil {
			break
		}
		if len(read.Txns) > 0 {
			r.add(newest, read.Txns)
			newest = read.Txns[len(read.Txns)-1].ID
		}
		if (read.Next == 0 || len(read.Txns) == 0) && !sleep(ctx, f.pause) {
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

// newest returns the id of the newest txn, or 0 if there is none.
func (f *Feed) newest(ctx context.Context) (uint64, error) {
	ctx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	newest, err := f.store.History(ctx, service.HistoryQuery{Order: service.NewestFirst, Limit: 1})
	if err != nil || len(newest.Txns) == 0 {
		return 0, err
	}
	return newest.Txns[0].ID, nil
}

// begin makes known from which txn on the run reads.
func (r *run) begin(position uint64) {
	r.change(func() { r.hasBegun, r.position = true, position })
}

// add makes a page known.
func (r *run) add(after uint64, txns []service.Txn) {
	r.change(func() {
		if r.pages = append(r.pages, page{after, txns}); len(r.pages) > mostPages {
			r.pages = append([]page(nil), r.pages[1:]...)
		}
		r.position = txns[len(txns)-1].ID
	})
}

// fail tells all followers that the run has ended.
func (r *run) fail(err error) { r.change(func() { r.err = err }) }

// change carries out a change, and wakes those who wait for one.
func (r *run) change(carryOut func()) {
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
