//go:build linux

package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// txn is an id of the attempt, or 0.
func (a *attempt) txn() uint64 {
	for _, v := range a.answers {
		if v.Txn != 0 {
			return v.Txn
		}
	}
	return 0
}

// caller asks through its doors, one attempt after the other.
type caller struct {
	*world

	number int
	random *rand.Rand
	doors  []door // the first, and those for a retry
	asked  int
}

// doors are those of a caller: one of an instance, and for retries one of the other, of the same kind or HTTP.
func (w *world) doors(kind string, caller int) []door {
	here, there := w.instances[caller%instances], w.instances[(caller+1)%instances]
	switch kind {
	case "grpc":
		return []door{grpcDoor{here}, []door{grpcDoor{there}, httpDoor{there}}[caller%2]}
	case "sql":
		return []door{sqlDoor{w}, []door{sqlDoor{w}, httpDoor{there}}[caller%2]}
	}
	return []door{httpDoor{here}, httpDoor{there}}
}

// load starts the callers. The channel is closed when all have ended, after ctx.
func (w *world) load(ctx context.Context) <-chan struct{} {
	var all sync.WaitGroup
	w.loaded = w.now()
	kinds := []string{"http", "http", "http", "http", "http", "http", "grpc", "grpc", "sql", "sql"}
	if w.only == "linear" || w.only == "dense" {
		kinds = nil
	}
	for i, kind := range kinds {
		c := &caller{world: w, number: i, random: w.random(100 + uint64(i)), doors: w.doors(kind, i)}
		all.Go(func() {
			for ctx.Err() == nil {
				c.ask(ctx)
				pause(ctx, time.Duration(c.random.IntN(20))*time.Millisecond)
			}
		})
	}
	if w.only != "records" {
		all.Go(func() { w.tell(ctx) })
	}
	done := make(chan struct{})
	go func() { all.Wait(); close(done) }()
	return done
}

// erasable is the key that a fault erases.
const erasable = "erasable"

// draw makes an attempt.
func (c *caller) draw() *attempt {
	r := c.random
	group, beside := []int{1 + r.IntN(edited)}, map[int][]int{1: {2}, 5: {2, 3}, 8: {7}, 10: {5}, edited: {1}}
	if r.IntN(2) == 0 {
		group = append(group, beside[group[0]]...)
	}
	a := &attempt{}
	key := "cold-" + strconv.Itoa(r.IntN(300))
	if r.IntN(10) < 6 {
		key = "hot-" + strconv.Itoa(r.IntN(2))
	}
	if r.IntN(100) == 0 {
		key = erasable
	}
	door := c.doors[0].name()[:3]
	if door == "grp" && (slices.Contains(group, 8) || slices.Contains(group, 12)) {
		group = []int{1} // Envoy is not told what a shadow or an answer without the database is
	}
	for _, id := range group {
		b := bucket{id, key}
		switch {
		case id == 2:
			b.Key = fmt.Sprintf("192.0.2.%d", r.IntN(3))
		case id == 11:
			a.isFresh = r.IntN(2) == 0
			a.secret = fmt.Sprintf("%016x", r.IntN(4)+1)
			if a.isFresh {
				a.secret = fmt.Sprintf("%08x%08x", c.number+1, c.asked+1)
			}
		}
		a.buckets = append(a.buckets, b)
	}
	if door == "grp" || r.IntN(10) < 7 || len(a.buckets) > 1 {
		a.name = fmt.Sprintf("f-%d-%d", c.number, c.asked)
	}
	if a.secret != "" && door != "htt" {
		a.secret, a.isFresh = "", true // counts as ever
	}
	return a
}

// ask asks about one attempt until it has an answer or the caller gives up, and reports its outcome now and then.
func (c *caller) ask(ctx context.Context) {
	c.asked++
	a := c.draw()
	c.carryOut(ctx, a, []int{1, 3, 3}[c.random.IntN(3)])
	if a.state != acked || ctx.Err() != nil {
		return
	}
	isTold := !strings.HasPrefix(a.door, "grpc") // over gRPC an answer names no txn of blocked attempts
	if second := *a; isTold && a.name != "" && c.random.IntN(20) == 0 && c.try(ctx, &second, c.doors[1]) == acked {
		a.again = second.answers
	}
	c.report(ctx, a)
	if c.random.IntN(300) == 0 {
		zone := []int{1, 5, 7, 9, 10}[c.random.IntN(5)]
		c.change(ctx, &change{kind: "release", buckets: []bucket{{zone, "hot-" + strconv.Itoa(c.random.IntN(2))}}},
			c.doors[0])
	}
}

// carryOut asks until there is an answer, at most so often.
func (c *caller) carryOut(ctx context.Context, a *attempt, tries int) {
	a.begin = c.now()
	for i := 0; i < tries && a.state < degraded && (i == 0 || a.name != "" && ctx.Err() == nil); i++ {
		a.state = max(a.state, c.try(ctx, a, c.doors[i%len(c.doors)]))
		if a.state < degraded {
			pause(ctx, 100*time.Millisecond)
		}
	}
	if a.end = c.now(); a.state == unknown {
		a.end = forever
	}
	add(c.records, &c.attempts, a)
}

// try is one call. It is carried out to its end even if the round ends.
func (c *caller) try(ctx context.Context, a *attempt, d door) state {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), patience)
	defer cancel()
	t := try{span: span{begin: c.now()}, door: d.name()}
	var err error
	t.state, err = d.check(ctx, a)
	if t.end = c.now(); err != nil {
		a.fault = err.Error()
	}
	if t.state == acked || t.state == degraded {
		a.door = d.name()
	}
	a.tries = append(a.tries, t)
	return t.state
}

// report reports how the login ended, sometimes.
func (c *caller) report(ctx context.Context, a *attempt) {
	if a.blocked || a.txn() == 0 || c.random.IntN(2) == 0 {
		return
	}
	pause(ctx, time.Duration(c.random.IntN(60))*time.Millisecond)
	kind := "failure"
	if c.random.IntN(2) == 0 {
		kind = "success"
	}
	c.change(ctx, &change{kind: kind, attempt: a, buckets: a.buckets}, c.doors[c.random.IntN(2)])
}

// change carries out a release, or an outcome, which it repeats once if it got no answer.
func (c *caller) change(ctx context.Context, ch *change, d door) {
	ch.begin, ch.door = c.now(), d.name()
	for range 2 {
		call, cancel := context.WithTimeout(context.WithoutCancel(ctx), patience)
		ended, _ := d.report(call, ch)
		cancel()
		ch.state = max(ch.state, ended)
		if ch.end = c.now(); ch.state != unknown || ch.kind == "release" { // a second one releases other attempts
			break
		}
	}
	if ch.state == unknown {
		ch.end = forever
	}
	add(c.records, &c.changes, ch)
}
