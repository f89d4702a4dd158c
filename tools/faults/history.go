//go:build linux

package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/anishathalye/porcupine"
)

// A history is what a few clients did at the same time in one or two buckets that no other client knows.
type history struct {
	span // until all clients have ended

	mu       sync.Mutex
	edge     time.Time // when the oldest place of the window was taken
	buckets  []bucket
	attempts []*attempt
	changes  []*change
}

// The sizes of histories: how many are told at the same time, and the clients and calls of each. The last teller's are
// of the dense zone.
const (
	tellers    = 28
	clients    = 4
	calls      = 7
	denseCalls = 400
)

// stories are the zones of a history's buckets.
func stories() [][]int { return [][]int{{21}, {22}, {23}, {24}, {25}, {26}, {21, 22}, {24, 26}} }

// tell makes histories until the end of ctx.
func (w *world) tell(ctx context.Context) {
	var all sync.WaitGroup
	for n := range tellers {
		if w.only == "dense" && n < tellers-1 {
			continue
		}
		r := w.random(1000 + uint64(n))
		all.Go(func() {
			for i := 0; ctx.Err() == nil; i++ {
				seed, zones := r.Uint64(), []int{dense}
				if n < tellers-1 {
					zones = stories()[seed%uint64(len(stories()))]
				}
				add(w.records, &w.histories, w.tellOne(ctx, seed, fmt.Sprintf("h-%d-%d", n, i), zones))
			}
		})
	}
	all.Wait()
}

func (w *world) tellOne(ctx context.Context, seed uint64, key string, zones []int) *history {
	h := &history{span: span{begin: w.now()}}
	for _, id := range zones {
		h.buckets = append(h.buckets, bucket{id, key})
	}
	var all sync.WaitGroup
	for n := range clients {
		c := &caller{world: w, random: rand.New(rand.NewPCG(seed, uint64(n)))}
		c.doors = w.doors([]string{"http", "http", "http", "sql"}[n], n)
		all.Go(func() {
			for i := 0; zones[0] == dense && i < denseCalls && ctx.Err() == nil; i++ {
				a := &attempt{buckets: h.buckets}
				if i%2 > 0 { // the service decides, and not the engine's procedure
					a.name = fmt.Sprintf("%s-%d-%d", key, n, i)
				}
				c.carryOut(ctx, a, 1)
				h.note(a, nil)
			}
			var passed []*attempt
			for i := 0; zones[0] != dense && i < calls && ctx.Err() == nil; i++ {
				a, ch := c.act(ctx, h.buckets, &passed, fmt.Sprintf("%s-%d-%d", key, n, i))
				room := h.note(a, ch)
				switch c.random.IntN(6) {
				case 0:
					pause(ctx, between(c.random, 0, 900))
				case 1: // where a place becomes free
					pause(ctx, time.Until(room)-time.Duration(c.random.IntN(3000))*time.Microsecond)
				}
			}
		})
	}
	all.Wait()
	h.end = w.now()
	return h
}

// note adds a call to a history, and returns when the oldest place becomes free.
func (h *history) note(a *attempt, ch *change) (room time.Time) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if ch != nil {
		h.changes = append(h.changes, ch)
	} else if h.attempts = append(h.attempts, a); a.state == acked && !a.blocked && a.at.After(h.edge.Add(time.Second)) {
		h.edge = a.at
	}
	return h.edge.Add(zonesByID()[h.buckets[0].Zone].window)
}

// act is one step of a client: mostly an attempt, now and then the outcome of an earlier one, or a release.
func (c *caller) act(ctx context.Context, buckets []bucket, passed *[]*attempt, name string) (*attempt, *change) {
	chance := c.random.IntN(100)
	if chance < 25 && len(*passed) > 0 {
		ch := &change{
			kind: []string{"success", "failure"}[c.random.IntN(2)], attempt: (*passed)[0],
			buckets: (*passed)[0].buckets,
		}
		*passed = (*passed)[1:]
		c.change(ctx, ch, c.doors[0])
		return nil, ch
	}
	if chance >= 96 {
		ch := &change{kind: "release", buckets: buckets[:1]}
		c.change(ctx, ch, c.doors[0])
		return nil, ch
	}
	a := &attempt{buckets: buckets, name: name}
	if len(buckets) > 1 && c.random.IntN(3) == 0 {
		a.buckets = buckets[c.random.IntN(2):][:1]
	}
	if len(a.buckets) == 1 && c.random.IntN(3) == 0 {
		a.name = "" // a lone check, which the engine's procedure decides
	}
	c.carryOut(ctx, a, 2)
	if a.state == acked && !a.blocked {
		*passed = append(*passed, a)
	}
	return a, nil
}

// judgeHistories checks each history of a round for linearizability. Where an undecided call took effect, the rows say
// so.
func (c *caseOf) judgeHistories(list []*history, v *verdict) {
	for _, h := range list {
		if c.isUntold(h.span) {
			v.untold[isLinear]++
			continue
		}
		operations := c.operations(h, v)
		switch porcupine.CheckOperationsTimeout(model(h.buckets, c.zones), operations, 10*time.Second) {
		case porcupine.Ok:
			v.judged[isLinear]++
		case porcupine.Unknown:
			v.untold[isLinear]++
		case porcupine.Illegal:
			v.judged[isLinear]++
			text := ""
			for _, o := range operations {
				text += fmt.Sprintf("\n    %d %d-%d %+v %+v", o.ClientId, o.Call, o.Return, o.Input, o.Output)
			}
			v.breaks(isLinear, "the history of %v has no order: %s", h.buckets, text)
		}
	}
}

// operations are those of a history that took effect, with times in microseconds.
func (c *caseOf) operations(h *history, v *verdict) (list []porcupine.Operation) {
	happens := func(s span, input, output any) {
		list = append(list, porcupine.Operation{Input: input, Output: output, Call: c.micro(s.begin), Return: c.micro(s.end)})
	}
	given := map[uint64]bool{}
	stray := span{forever, forever} // of attempts without a name, and without an answer
	for _, a := range h.attempts {
		in := checkIn{places: h.places(a.buckets), of: a}
		switch {
		case a.state == acked:
			out := checkOut{at: a.at.UnixMicro(), answers: a.answers}
			if out.at < c.micro(a.begin)-1000 || out.at > c.micro(a.end)+1000 {
				v.breaks(isLinear, "%v was decided at %s, its call was at %s", a.buckets, a.at, c.wall(a.begin))
			}
			for _, b := range a.answers {
				given[b.Txn] = true
			}
			happens(a.span, in, out)
		case a.state == unknown && a.name == "":
			stray.begin = min(stray.begin, a.begin)
		case a.state == unknown && len(c.named[a.name]) > 0:
			out := checkOut{at: c.named[a.name][0].At.UnixMicro(), answers: answersOf(c.named[a.name], a.buckets)}
			happens(span{a.begin, forever}, in, out)
		}
	}
	for i, b := range h.buckets {
		for _, r := range c.named[""] {
			if r.bucket == b && !given[r.ID] && stray.begin < forever {
				happens(stray, checkIn{places: []int{i}}, checkOut{at: r.At.UnixMicro(), answers: answersOf([]row{r}, []bucket{b})})
			}
		}
	}
	for _, ch := range h.changes {
		happened := ch.state == acked || ch.state == refused && ch.isLate
		if ch.attempt != nil && ch.state == unknown {
			happened = c.rows[ch.attempt.txn()].Outcome == ch.kind
		}
		if happened || ch.attempt == nil && ch.state == unknown {
			happens(ch.span, changeIn{ch.kind, h.places(ch.buckets), ch.attempt, c.micro(ch.begin), c.micro(ch.end)},
				changeOut{isLate: ch.state == refused, isOpen: ch.state == unknown})
		}
	}
	return list
}

// micro is a time of the round by the wall clock, in microseconds.
func (c *caseOf) micro(d time.Duration) int64 {
	if d == forever {
		return int64(forever)
	}
	return c.wall(d).UnixMicro()
}

// places are where buckets stand in the history's.
func (h *history) places(buckets []bucket) (list []int) {
	for _, b := range buckets {
		list = append(list, slices.Index(h.buckets, b))
	}
	return list
}

// answersOf are the answers that rows tell.
func answersOf(rows []row, buckets []bucket) (list []answer) {
	for _, b := range buckets {
		for _, r := range rows {
			if r.bucket == b {
				list = append(list, answer{b, r.WouldBlock, r.Reason, r.ID, -1})
			}
		}
	}
	return list
}
