package memory

import (
	"context"
	"encoding/json"
	"slices"
	"time"

	"velocityd/service"
	"velocityd/service/event"
)

// EventsOf returns every event of a bucket by id.
func (m *Store) EventsOf(bucket service.Bucket) (events []event.Event) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, e := range m.events {
		if e.Bucket == bucket {
			events = append(events, e)
		}
	}
	return events
}

// tellLockouts records the lockouts that begin.
func (m *Store) tellLockouts(now time.Time, begun []service.Locked) {
	for _, l := range begun {
		m.standing[l.Bucket] = l
		m.tell(now, event.BucketLocked, l.Bucket, l.TxnID,
			map[string]any{"locked_until": l.Until, "reason": service.ReasonLockout})
	}
}

// tellRelease records a release, and the end of a lockout that stands.
func (m *Store) tellRelease(now time.Time, bucket service.Bucket, principal, reason string) {
	if l := m.standing[bucket]; l.Until.After(now) {
		m.tell(now, event.BucketLockEnded, bucket, l.TxnID, map[string]any{"ended_at": now, "cause": "release"})
	}
	delete(m.standing, bucket)
	m.tell(now, event.BucketReleased, bucket, 0, map[string]any{"by": principal, "reason": reason})
}

func (m *Store) tell(now time.Time, of event.Type, bucket service.Bucket, txnID uint64, data map[string]any) {
	text, _ := json.Marshal(data) // texts and times cannot fail
	m.events = append(m.events, event.Event{
		ID: uint64(len(m.events) + 1), Type: of, At: service.At(now),
		Bucket: bucket, TxnID: txnID, Data: text,
	})
}

// Events implements event.Store.
func (m *Store) Events(_ context.Context, q event.Query) (event.Page, error) {
	if err := q.Validate(); err != nil {
		return event.Page{}, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	events := slices.Clone(m.events)
	if q.Order == service.NewestFirst {
		slices.Reverse(events)
	}
	end := m.now().Add(-service.HistoryLag)
	page := event.Page{Last: q.Cursor}
	for _, e := range events {
		isUp := q.Order == service.OldestFirst
		switch {
		case q.Cursor != 0 && (e.ID == q.Cursor || (e.ID > q.Cursor) != isUp):
			continue
		case isUp && e.At.After(end):
			return page, nil
		case len(page.Events) == q.Limit:
			page.Next = page.Last
			return page, nil
		}
		page.Last = e.ID
		if q.Matches(e) {
			page.Events = append(page.Events, e)
		}
	}
	return page, nil
}
