package feed_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"velocityd/service"
	"velocityd/service/feed"
)

// growing is a history of txns 1, 2, 3 and so on, in zones 1 and 2 in turn. All are older than the lag.
type growing struct {
	mu     sync.Mutex
	newest uint64
	err    error
	reads  atomic.Int64
}

func (g *growing) grow(n uint64) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.newest += n
}

func (g *growing) fail(err error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.err = err
}

func (g *growing) History(_ context.Context, q service.HistoryQuery) (service.HistoryPage, error) {
	g.reads.Add(1)
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.err != nil {
		return service.HistoryPage{}, g.err
	}
	return q.Page(func(yield func(service.Txn, error) bool) {
		id := q.Cursor + 1
		if q.Order == service.NewestFirst {
			id = g.newest
		}
		for id > 0 && id <= g.newest && yield(service.Txn{ID: id, Bucket: service.Bucket{ZoneID: int64(id%2) + 1}}, nil) {
			id++
		}
	})
}

// collect follows until so many txns have come, and calls begun when the position is known.
func collect(ctx context.Context, f feed.Txns, q service.HistoryQuery, n int, begun func()) (ids []uint64, err error) {
	for step, err := range f.Follow(ctx, q) {
		if err != nil {
			return ids, err
		}
		if begun != nil {
			begun()
			begun = nil
		}
		for _, t := range step.Items {
			ids = append(ids, t.ID)
		}
		if len(ids) >= n {
			return ids, nil
		}
	}
	return ids, ctx.Err()
}

func patient(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	t.Cleanup(cancel)
	return ctx
}

// TestManyFollowersGetAllFromOneReading has as many pages come as the feed forgets meanwhile.
func TestManyFollowersGetAllFromOneReading(t *testing.T) {
	t.Parallel()
	const followers, txns = 6, 30_000
	g := &growing{newest: 7}
	f := feed.OfTxns(g, time.Millisecond)
	ctx := patient(t)
	var begun, done sync.WaitGroup
	begun.Add(followers)
	for i := range followers {
		done.Go(func() {
			want, q := txns, service.HistoryQuery{}
			if i%2 == 1 {
				want, q.Zones = txns/2, []int64{2}
			}
			ids, err := collect(ctx, f, q, want, begun.Done)
			if err != nil || len(ids) != want || ids[0] != uint64(8+i%2) {
				t.Errorf("follower %d: %d txns, %v", i, len(ids), err)
				return
			}
			for n := 1; n < want; n++ {
				if step := uint64(txns / want); ids[n] != ids[n-1]+step {
					t.Errorf("follower %d: txn %d comes after %d", i, ids[n], ids[n-1])
					return
				}
			}
		})
	}
	begun.Wait()
	g.grow(txns)
	done.Wait()
}

func TestTheHistoryIsReadOnceForAllFollowers(t *testing.T) {
	t.Parallel()
	g := &growing{newest: 1}
	f := feed.OfTxns(g, time.Hour)
	ctx, cancel := context.WithCancel(patient(t))
	var begun, done sync.WaitGroup
	begun.Add(50)
	for range 50 {
		done.Go(func() { _, _ = collect(ctx, f, service.HistoryQuery{}, 1, begun.Done) })
	}
	begun.Wait()
	cancel()
	done.Wait()
	if n := g.reads.Load(); n > 2 { // the newest txn, and those behind it
		t.Errorf("the history was read %d times", n)
	}
}

func TestAFollowerGoesOnFromAnyPosition(t *testing.T) {
	t.Parallel()
	g := &growing{newest: 40_000}
	f := feed.OfTxns(g, time.Millisecond)
	for _, after := range []uint64{1, 20_001, 39_999} {
		ids, err := collect(patient(t), f, service.HistoryQuery{Cursor: after, Zones: []int64{1}}, int(40_001-after)/2, nil)
		if err != nil || ids[0] != after+1+(after+1)%2 || ids[len(ids)-1] != 40_000 {
			t.Errorf("after %d: %d txns, %v", after, len(ids), err)
		}
	}
}

func TestEmptyHistoryIsFollowedFromFirstTxn(t *testing.T) {
	t.Parallel()
	g := &growing{}
	ids, err := collect(patient(t), feed.OfTxns(g, time.Millisecond), service.HistoryQuery{}, 3, func() { g.grow(3) })
	if err != nil || fmt.Sprint(ids) != "[1 2 3]" {
		t.Errorf("got %v, %v", ids, err)
	}
}

func TestFollowersLearnOfFaultAndFollowAgain(t *testing.T) {
	t.Parallel()
	g := &growing{newest: 1}
	f := feed.OfTxns(g, time.Millisecond)
	_, err := collect(patient(t), f, service.HistoryQuery{}, 1, func() { g.fail(service.ErrBusy) })
	if !errors.Is(err, feed.ErrBroken) || !errors.Is(err, service.ErrBusy) {
		t.Errorf("got %v", err)
	}
	g.fail(nil)
	if ids, err := collect(patient(t), f, service.HistoryQuery{}, 1, func() { g.grow(1) }); err != nil ||
		fmt.Sprint(ids) != "[2]" {
		t.Errorf("then %v, %v", ids, err)
	}
}
