// Package event defines events: changes that others may want to know at once. It must not know
// how events are stored, followed or sent.
package event

import (
	"encoding/json"

	"velocityd/service"
)

// Type is the type of an event. It says which members Data has: see api/events.schema.json.
type Type string

// The types of events. A lockout that begins while its zone only watches causes none.
const (
	BucketLocked    Type = "bucket.locked"     // a lockout began
	BucketLockEnded Type = "bucket.lock_ended" // it ended, by time or by a release
	BucketReleased  Type = "bucket.released"   // the bucket was released, locked or not
	ZoneCreated     Type = "zone.created"
	ZoneUpdated     Type = "zone.updated"
	ZoneDeleted     Type = "zone.deleted"
	OverrideCreated Type = "override.created"
	OverrideUpdated Type = "override.updated"
	OverrideDeleted Type = "override.deleted" // by a caller, or a day after it expired
	TokenCreated    Type = "token.created"    // a token, or the subject of a client certificate
	TokenUpdated    Type = "token.updated"    // by SQL; nothing else changes one
	TokenRevoked    Type = "token.revoked"
)

// Types returns all types.
func Types() []Type {
	return []Type{
		BucketLocked, BucketLockEnded, BucketReleased, ZoneCreated, ZoneUpdated, ZoneDeleted, OverrideCreated,
		OverrideUpdated, OverrideDeleted, TokenCreated, TokenUpdated, TokenRevoked,
	}
}

// Event is one event. The members type, timestamp and data of its JSON are those that Standard Webhooks asks for.
type Event struct {
	Version Version         `json:"version"`
	ID      uint64          `json:"id,string"`
	Type    Type            `json:"type"`
	At      service.Instant `json:"timestamp"` // when it was written, by the engine's clock
	// Bucket is the bucket that the event is about. It has no key if the event is about a zone, and no zone either if
	// it is about a token.
	service.Bucket
	TxnID uint64 `json:"txn_id,string,omitzero"` // of the attempt that caused it, or 0
	// Data is an object in JSON with the members of the type.
	Data json.RawMessage `json:"data"`
}

// Version is the version of the schema of events, which is 1. A version only gains members; one that loses or changes
// any is a new one.
type Version struct{}

// MarshalJSON implements json.Marshaler. It never fails.
func (Version) MarshalJSON() ([]byte, error) { return []byte("1"), nil }

// UnmarshalJSON implements json.Unmarshaler. It takes any version.
func (*Version) UnmarshalJSON([]byte) error { return nil }
