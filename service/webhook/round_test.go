package webhook_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"velocityd/service"
	"velocityd/service/event"
	"velocityd/service/webhook"
)

// noon is the engine's time in these tests.
func noon() time.Time { return time.Date(2026, 11, 27, 12, 0, 0, 0, time.UTC) }

// of returns an event of a bucket.
func of(id uint64, key string) event.Event {
	return event.Event{ID: id, Type: event.BucketLocked, Bucket: service.Bucket{ZoneID: 1, Key: key}}
}

// taker takes events but for those that refuses names, and notes the order.
type taker struct {
	refuses func(event.Event) bool
	mu      sync.Mutex
	tried   []string
}

func (k *taker) send(_ context.Context, _ webhook.Webhook, _ string, e event.Event) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.tried = append(k.tried, fmt.Sprint(e.Bucket.Key, e.ID))
	if k.refuses(e) {
		return errors.New("refused")
	}
	return nil
}

// carry carries out a round, and returns the results as text: an id, and + for sent, ! for failed, - for dead and . for
// waiting.
func carry(t *testing.T, r *webhook.Round, send webhook.Send) string {
	t.Helper()
	r.Now = noon()
	var words []string
	for _, result := range r.Deliver(t.Context(), send, time.Now().Add(time.Hour)) {
		sign := "."
		switch {
		case result.Sent:
			sign = "+"
		case result.NextAt.IsZero():
			sign = "-"
		case result.NextAt.After(noon()):
			sign = "!"
		}
		words = append(words, fmt.Sprint(result.EventID, sign))
	}
	return strings.Join(words, " ")
}

func TestBucketEventsWaitBehindFailedOne(t *testing.T) {
	t.Parallel()
	k := &taker{refuses: func(e event.Event) bool { return e.ID == 3 }}
	r := &webhook.Round{New: []event.Event{of(1, "a"), of(2, "b"), of(3, "a"), of(4, "a"), of(5, "b")}}
	if got, want := carry(t, r, k.send), "1+ 2+ 3! 4. 5+"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	if at := slices.Index(k.tried, "a1"); at > slices.Index(k.tried, "a3") || slices.Contains(k.tried, "a4") ||
		slices.Index(k.tried, "b2") > slices.Index(k.tried, "b5") {
		t.Errorf("tried %v", k.tried)
	}
}

func TestDeliveryIsTriedWhenDueAndOthersFollow(t *testing.T) {
	t.Parallel()
	k := &taker{refuses: func(event.Event) bool { return false }}
	kept := map[uint64]event.Event{3: of(3, "a"), 4: of(4, "a"), 6: of(6, "c")}
	waiting := func(id uint64, key string, next time.Time) webhook.Delivery {
		return webhook.Delivery{EventID: id, Bucket: service.Bucket{ZoneID: 1, Key: key}, Tries: 1, NextAt: service.At(next)}
	}
	r := &webhook.Round{Kept: kept, New: []event.Event{of(7, "a"), of(8, "c")}, Waiting: []webhook.Delivery{
		waiting(3, "a", noon()), waiting(4, "a", noon()), waiting(6, "c", noon().Add(time.Second)),
	}}
	if got, want := carry(t, r, k.send), "3+ 4+ 7+ 8."; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

func TestDeliveryDiesAfterLastTryMakingRoom(t *testing.T) {
	t.Parallel()
	k := &taker{refuses: func(e event.Event) bool { return e.ID == 1 }}
	dying := webhook.Delivery{
		EventID: 1, Bucket: service.Bucket{ZoneID: 1, Key: "a"}, Tries: webhook.MostTries - 1,
		NextAt: service.At(noon()),
	}
	gone := webhook.Delivery{EventID: 2, NextAt: service.At(noon())} // the event is no longer kept
	r := &webhook.Round{
		Kept: map[uint64]event.Event{1: of(1, "a")}, Waiting: []webhook.Delivery{dying, gone},
		New: []event.Event{of(3, "a")},
	}
	if got, want := carry(t, r, k.send), "1- 2- 3+"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

func TestPausesGrowAndLastOverADay(t *testing.T) {
	t.Parallel()
	k := &taker{refuses: func(event.Event) bool { return true }}
	var all, last time.Duration
	d := webhook.Delivery{EventID: 1, Bucket: service.Bucket{ZoneID: 1, Key: "a"}, NextAt: service.At(noon())}
	for range webhook.MostTries - 1 {
		r := &webhook.Round{Now: noon(), Kept: map[uint64]event.Event{1: of(1, "a")}, Waiting: []webhook.Delivery{d}}
		d = r.Deliver(t.Context(), k.send, time.Now().Add(time.Hour))[0].Delivery
		pause := d.NextAt.Sub(noon())
		if pause < last {
			t.Errorf("after %d tries the pause is %v, shorter than %v", d.Tries, pause, last)
		}
		all, last, d.NextAt.Time = all+pause, pause, noon()
	}
	if all < 24*time.Hour || all > 48*time.Hour {
		t.Errorf("the last try is %v after the first", all)
	}
}

func TestAbsentReceiverIsNotTriedWithEveryEvent(t *testing.T) {
	t.Parallel()
	k := &taker{refuses: func(event.Event) bool { return true }}
	r := &webhook.Round{}
	for id := range uint64(100) {
		r.New = append(r.New, of(id+1, fmt.Sprint("bucket ", id)))
	}
	got := carry(t, r, k.send)
	if len(k.tried) > 16 || strings.Count(got, ".") < 84 || strings.Count(got, ".")+strings.Count(got, "!") != 100 {
		t.Errorf("%d were tried: %s", len(k.tried), got)
	}
}

func TestWebhookHasTwoEventsUnderWayAtOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r, begun, goOn := &webhook.Round{}, make(chan string, 10), make(chan struct{})
		for id := range uint64(10) {
			r.New = append(r.New, of(id+1, fmt.Sprint("bucket ", id)))
		}
		done := make(chan []webhook.Result)
		go func() {
			done <- r.Deliver(t.Context(), func(_ context.Context, _ webhook.Webhook, _ string, e event.Event) error {
				begun <- e.Bucket.Key
				<-goOn
				return nil
			}, time.Now().Add(time.Hour))
		}()
		synctest.Wait()
		if n := len(begun); n != 2 {
			t.Errorf("%d are under way, want 2", n)
		}
		close(goOn)
		if results := <-done; len(results) != 10 || len(begun) != 10 {
			t.Errorf("%d results of %d tries, want 10", len(results), len(begun))
		}
	})
}

func TestWebhookWantsEventsOfItsTypesAndZones(t *testing.T) {
	t.Parallel()
	token := event.Event{Type: event.TokenCreated}
	for _, c := range []struct {
		w     webhook.Webhook
		wants []bool // an event of zone 1, the same of zone 2, one of no zone
	}{
		{webhook.Webhook{}, []bool{true, true, true}},
		{webhook.Webhook{Zones: []int64{1}}, []bool{true, false, false}},
		{webhook.Webhook{Types: []event.Type{"bucket.*"}, Zones: []int64{2, 3}}, []bool{false, true, false}},
		{webhook.Webhook{Types: []event.Type{event.BucketReleased}}, []bool{false, false, false}},
		{webhook.Webhook{Types: []event.Type{"token.*"}}, []bool{false, false, true}},
	} {
		other := of(2, "alice")
		other.Bucket.ZoneID = 2
		for i, e := range []event.Event{of(1, "alice"), other, token} {
			if got := c.w.Wants(e); got != c.wants[i] {
				t.Errorf("types %v and zones %v: %s of zone %d is wanted: %t", c.w.Types, c.w.Zones, e.Type, e.Bucket.ZoneID, got)
			}
		}
	}
}
