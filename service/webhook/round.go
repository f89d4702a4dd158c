package webhook

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"time"

	"velocityd/service"
	"velocityd/service/event"
)

const (
	// MostTries is how often an event is tried. The last try is about a day and a half after the first.
	MostTries = 12
	// MostWaiting is how many waiting deliveries a webhook may have. With as many it takes no new events, which stay
	// where they are.
	MostWaiting = 200
	// lanes is how many buckets' events are under way to one webhook at once. So MaxWebhooks × lanes bounds those of all.
	lanes = 2
	// patience is how many tries of one round may fail without any success before the round ends: the receiver is away.
	patience = 3
)

// pauseAfter is the time after so many failed tries.
func pauseAfter(tries int) time.Duration {
	pauses := []time.Duration{
		5 * time.Second, 30 * time.Second, 2 * time.Minute, 10 * time.Minute, 30 * time.Minute, time.Hour, 2 * time.Hour,
		4 * time.Hour, 6 * time.Hour, 8 * time.Hour,
	}
	return pauses[min(max(tries, 1), len(pauses))-1]
}

// Round is one look at the events for one webhook.
type Round struct {
	Webhook Webhook
	Secret  string
	Now     time.Time // by the engine's clock
	// Waiting are the deliveries that are not dead, by the ids of their events, and New the events behind the position
	// that the webhook wants.
	Waiting []Delivery
	New     []event.Event
	// Kept are the events of Waiting that are still kept.
	Kept map[uint64]event.Event

	mu       sync.Mutex
	results  []Result
	failures int // without a success
	isFine   bool
}

// Result is the fate of an event in a round.
type Result struct {
	Delivery
	// Sent says that the receiver has it; otherwise Delivery is as it is from now on.
	Sent bool
	// WasWaiting says that it was among those that waited.
	WasWaiting bool
}

// Send sends one event to a webhook. Its error says why the receiver has not taken it, and is shown to people.
type Send func(ctx context.Context, w Webhook, secret string, e event.Event) error

// item is an event in the queue of its bucket.
type item struct {
	Delivery
	event      event.Event // zero if it is no longer kept
	wasWaiting bool
}

// Deliver sends the due events, in order for each bucket, until deadline, and returns the results of all events that
// were due or new. An event behind one that failed waits for it.
func (r *Round) Deliver(ctx context.Context, send Send, until time.Time) []Result {
	queues := r.queues()
	work := make(chan []item)
	var senders sync.WaitGroup
	for range min(lanes, len(queues)) {
		senders.Go(func() {
			for queue := range work {
				r.sendQueue(ctx, send, queue, until)
			}
		})
	}
	for _, queue := range queues {
		work <- queue
	}
	close(work)
	senders.Wait()
	slices.SortFunc(r.results, func(a, b Result) int { return cmp.Compare(a.EventID, b.EventID) })
	return r.results
}

// queues returns the events of each bucket in order, the bucket with the oldest one first.
func (r *Round) queues() (list [][]item) {
	places := map[service.Bucket]int{}
	add := func(i item) {
		place, isKnown := places[i.Bucket]
		if !isKnown {
			place = len(list)
			places[i.Bucket], list = place, append(list, nil)
		}
		list[place] = append(list[place], i)
	}
	for _, d := range r.Waiting {
		add(item{d, r.Kept[d.EventID], true})
	}
	for _, e := range r.New {
		add(item{Delivery{EventID: e.ID, Type: e.Type, Bucket: e.Bucket, NextAt: service.At(r.Now)}, e, false})
	}
	return list
}

// sendQueue sends the events of one bucket until one fails or is not due. The others wait.
func (r *Round) sendQueue(ctx context.Context, send Send, queue []item, until time.Time) {
	for n, i := range queue {
		if i.NextAt.After(r.Now) || !r.goesOn(ctx, until) {
			r.wait(queue[n:])
			return
		}
		result := Result{Delivery: i.Delivery, WasWaiting: i.wasWaiting}
		if i.event.ID == 0 {
			result.fail(r.Now, "the event is no longer kept")
			result.NextAt.Time = time.Time{}
			r.add(result)
			continue
		}
		err := send(ctx, r.Webhook, r.Secret, i.event)
		if result.Sent = err == nil; !result.Sent {
			result.fail(r.Now, err.Error())
		}
		r.note(result.Sent)
		r.add(result)
		if !result.Sent && !result.NextAt.IsZero() {
			r.wait(queue[n+1:])
			return
		}
	}
}

// fail makes the result that of a try that failed.
func (r *Result) fail(now time.Time, why string) {
	r.Tries++
	r.Error = why
	r.NextAt.Time = now.Add(pauseAfter(r.Tries))
	if r.Tries >= MostTries {
		r.NextAt.Time = time.Time{}
	}
}

// wait keeps new events for a later round. Those that waited already stay as they are.
func (r *Round) wait(queue []item) {
	for _, i := range queue {
		if !i.wasWaiting {
			r.add(Result{Delivery: i.Delivery})
		}
	}
}

// goesOn reports whether another event may be sent in this round.
func (r *Round) goesOn(ctx context.Context, until time.Time) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return ctx.Err() == nil && time.Now().Before(until) && (r.isFine || r.failures < patience)
}

func (r *Round) note(sent bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.isFine = r.isFine || sent; !sent {
		r.failures++
	}
}

func (r *Round) add(result Result) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.results = append(r.results, result)
}
