//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"math/rand/v2"
	"sync"
	"time"

	"velocityd/client"
	"velocityd/service"
	"velocityd/service/event"
)

// load is the work of all callers.
type load struct {
	*world
	options

	all sync.WaitGroup

	mu     sync.Mutex
	done   map[string]int64 // calls and items by kind
	failed map[string]int64 // calls by text
}

// did notes that something is done.
func (l *load) did(what string) { l.note(l.done, what) }

// vain is the kind of calls whose callers were told to come again, or had no answer in time.
const vain = "calls in vain"

// fault notes a call that was in vain, or failed.
func (l *load) fault(action string, err error) {
	if errors.Is(err, service.ErrBusy) || errors.Is(err, service.ErrUndecided) {
		l.did(vain)
		return
	}
	l.note(l.failed, fmt.Sprintf("%s: %.200s", action, err))
}

func (l *load) note(in map[string]int64, text string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	in[text]++
}

// callersOfAnInstance is how many ask one instance. Each has a connection, which the others do not use, so that the
// number of connections is the same all the time.
const callersOfAnInstance = 16

// startLoad starts all callers. They end with ctx.
func startLoad(ctx context.Context, o options, w *world) *load {
	l := &load{world: w, options: o, done: map[string]int64{}, failed: map[string]int64{}}
	due := make(chan time.Time, 10*o.pace)
	l.all.Go(func() { l.tick(ctx, due) })
	for n, i := range w.instances {
		for c := range callersOfAnInstance {
			l.all.Go(func() { l.call(i, uint64(n*callersOfAnInstance+c), due) })
		}
		l.all.Go(func() { l.edit(ctx, i) })
		l.all.Go(func() { l.export(ctx, i, 0) })
		l.all.Go(func() { l.export(ctx, i, 2*time.Millisecond) })
		all := service.HistoryQuery{}
		for range 3 {
			l.all.Go(func() { follow(ctx, l, 0, o.duration, i.follow(all)) })
		}
		l.all.Go(func() { follow(ctx, l, 100*time.Millisecond, o.duration/20, i.follow(all)) })
		l.all.Go(func() {
			follow(ctx, l, 0, o.duration, func(ctx context.Context) iter.Seq2[event.Event, error] {
				return i.client.FollowEvents(ctx, event.Query{})
			})
		})
	}
	return l
}

// tick says when checks are due, whether or not earlier ones are answered, and closes the channel in the end.
func (l *load) tick(ctx context.Context, due chan<- time.Time) {
	defer close(due)
	began := time.Now()
	for n := 1; ; n++ {
		at := began.Add(time.Duration(n) * time.Second / time.Duration(l.pace))
		if pause(ctx, time.Until(at)); ctx.Err() != nil {
			return
		}
		select {
		case due <- at:
		default: // all callers are busy for ten seconds
			l.did(vain)
		}
	}
}

// call carries out the checks that are due, and reports the outcome of every second one that may pass.
func (l *load) call(i *instance, number uint64, due <-chan time.Time) {
	own, err := client.New(i.url)
	if err != nil {
		l.fault("make a client", err)
		return
	}
	defer own.Close()
	random := rand.New(rand.NewPCG(number, uint64(time.Now().UnixNano())))
	for at := range due {
		d, err := own.Check(context.Background(), service.Check{Buckets: draw(random)})
		i.mu.Lock()
		i.took = append(i.took, time.Since(at)) // since it was due
		i.mu.Unlock()
		if err != nil {
			l.fault("check", err)
			continue
		}
		l.did("checks")
		if d.Blocked || random.IntN(2) == 0 {
			continue
		}
		outcome := []service.Outcome{service.OutcomeSuccess, service.OutcomeFailure}[random.IntN(2)]
		if err := own.Report(context.Background(), service.Report{TxnID: d.TxnID(), Outcome: outcome}); err != nil {
			l.fault("report", err)
			continue
		}
		l.did("outcomes")
	}
}

// draw draws the buckets of a check: of a few hot keys, of many cold ones, or with one that never comes again.
func draw(r *rand.Rand) []service.Bucket {
	key := fmt.Sprint("user-", r.IntN(2000))
	switch n := r.IntN(10); {
	case n < 4:
		key = fmt.Sprint("hot-", r.IntN(8))
	case n == 9:
		key = fmt.Sprintf("new-%x", r.Uint64())
	}
	address := service.Bucket{ZoneID: 2, Key: fmt.Sprint("192.0.2.", r.IntN(200))}
	switch n := r.IntN(10); {
	case n < 4:
		return []service.Bucket{{ZoneID: 1, Key: key}}
	case n < 7:
		return []service.Bucket{{ZoneID: 1, Key: key}, address}
	case n == 7:
		return []service.Bucket{{ZoneID: 3, Key: key}}
	case n == 8:
		return []service.Bucket{{ZoneID: 4, Key: key}}
	default:
		return []service.Bucket{{ZoneID: 5, Key: fmt.Sprint("hot-", r.IntN(20))}}
	}
}

// edit edits a zone and releases a bucket every two seconds.
func (l *load) edit(ctx context.Context, i *instance) {
	for n := 0; ; n++ {
		if pause(ctx, 2*time.Second); ctx.Err() != nil {
			return
		}
		zone, err := i.client.Zone(ctx, 5)
		if err == nil {
			zone.Rate, zone.Description = 3+n%6, fmt.Sprintf("edit %d by %s", n, i.name)
			_, err = i.client.PutZone(ctx, zone, service.Match{Present: true}, "soak")
		}
		if err == nil {
			err = i.client.Release(ctx, service.Bucket{ZoneID: 3, Key: fmt.Sprint("hot-", n%8)}, "soak", "soak")
		}
		switch {
		case err == nil:
			l.did("edits")
		case ctx.Err() == nil:
			l.fault("edit", err)
		}
	}
}

// export takes away the whole history, again and again, and pauses behind each txn.
func (l *load) export(ctx context.Context, i *instance, rest time.Duration) {
	for {
		if pause(ctx, 5*time.Second); ctx.Err() != nil {
			return
		}
		for _, err := range i.client.Export(ctx, service.HistoryQuery{Order: service.OldestFirst}, "soak") {
			switch {
			case err == nil:
				l.did("txns exported")
			case ctx.Err() == nil:
				l.fault("export", err)
			}
			if rest > 0 {
				pause(ctx, rest)
			}
		}
	}
}

// follow follows a stream, pauses behind each item, and comes anew after a time, as a page does that is opened again.
func follow[T any](
	ctx context.Context, l *load, rest, length time.Duration, stream func(context.Context) iter.Seq2[T, error],
) {
	for ctx.Err() == nil {
		once, cancel := context.WithTimeout(ctx, length)
		for _, err := range stream(once) {
			switch {
			case err == nil:
				l.did("items followed")
			case once.Err() == nil:
				l.fault("follow", err)
				pause(ctx, time.Second)
			}
			if rest > 0 {
				pause(once, rest)
			}
		}
		cancel()
	}
}

func (i *instance) follow(q service.HistoryQuery) func(context.Context) iter.Seq2[service.Txn, error] {
	return func(ctx context.Context) iter.Seq2[service.Txn, error] { return i.client.Follow(ctx, q) }
}
