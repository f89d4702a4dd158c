package api

import (
	_ "embed"
	"encoding/json"

	"velocityd/service"
	"velocityd/service/event"
)

// EventSchema is the JSON Schema of events. It is one copy for all requests, and must not be changed.
//
//go:embed events.schema.json
var EventSchema []byte

// EventVersion is the version of the schema. A version only gains members; one that loses or changes any is a new one.
const EventVersion = 1

// Event is one event. The members type, timestamp and data are those that Standard Webhooks asks for; events.schema.json
// says which members data has.
type Event struct {
	Version   int             `json:"version"`
	ID        ID              `json:"id"`
	Type      event.Type      `json:"type"`
	Timestamp Instant         `json:"timestamp"`
	ZoneID    int64           `json:"zone_id,omitzero"`
	BucketKey string          `json:"bucket_key,omitzero"`
	TxnID     ID              `json:"txn_id,omitzero"`
	Data      json.RawMessage `json:"data"`
}

// NewEvent returns the form of an event.
func NewEvent(e event.Event) Event {
	return Event{
		Version: EventVersion, ID: ID(e.ID), Type: e.Type, Timestamp: Instant(e.At.Time), ZoneID: e.Bucket.ZoneID, BucketKey: e.Bucket.Key,
		TxnID: ID(e.TxnID), Data: e.Data,
	}
}

// Event converts the form to the type of package event.
func (e Event) Event() event.Event {
	return event.Event{
		ID: uint64(e.ID), Type: e.Type, At: service.At(e.Timestamp.Time()), Bucket: service.Bucket{ZoneID: e.ZoneID, Key: e.BucketKey},
		TxnID: uint64(e.TxnID), Data: e.Data,
	}
}

// Events is the answer of GET /v1/events: one page.
type Events struct {
	Events []Event `json:"events"`
	// Next is the id behind which the following page begins, and 0 if there is none.
	Next ID `json:"next,omitzero"`
	// Last is the id of the last event that was looked at, from which a reader in ascending order goes on later. It is
	// left out if there never was one.
	Last ID `json:"last,omitzero"`
}

// NewEvents returns the answer for a page.
func NewEvents(page event.Page) Events {
	answer := Events{Events: make([]Event, len(page.Events)), Next: ID(page.Next), Last: ID(page.Last)}
	for i, e := range page.Events {
		answer.Events[i] = NewEvent(e)
	}
	return answer
}

// Page converts the answer to the type of package event.
func (e Events) Page() event.Page {
	page := event.Page{Next: uint64(e.Next), Last: uint64(e.Last)}
	for _, one := range e.Events {
		page.Events = append(page.Events, one.Event())
	}
	return page
}
