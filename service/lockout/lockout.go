// Package lockout lists the buckets of a zone that are locked out. It must not know how lockouts
// are stored, and it decides nothing.
package lockout

import (
	"context"
	"fmt"

	"velocityd/service"
)

const (
	// DefaultLimit is how many lockouts a page has at most, unless the query says it.
	DefaultLimit = 100
	// MaxLimit is the highest limit of a page.
	MaxLimit = 1000
)

// Lockout is a lockout that has begun and not ended.
type Lockout struct {
	Key string `json:"bucket_key"` // as it is recorded
	// Since and Until are its begin and its end, by the engine's clock.
	Since  service.Instant `json:"since"`
	Until  service.Instant `json:"until"`
	Reason service.Reason  `json:"reason"`        // of the attempt with which it began
	TxnID  uint64          `json:"txn_id,string"` // of that attempt
}

// Query asks for a page of the lockouts of a zone, the newest first.
type Query struct {
	ZoneID int64
	Cursor uint64 // TxnID of the last lockout of the page before; 0: the first page
	Limit  int    // 0: DefaultLimit
}

// Validate returns an ErrInvalid for a limit that is too high or too low, or nil.
func (q Query) Validate() error {
	if q.Limit < 0 || q.Limit > MaxLimit {
		return service.NewFieldError("limit", "must be 1 to %d", MaxLimit)
	}
	return nil
}

// Page is the lockouts of a zone at an instant, or some of them.
type Page struct {
	ZoneID   int64           `json:"zone_id"`
	At       service.Instant `json:"checked_at"`
	Lockouts []Lockout       `json:"locked"`
	// Next is the Cursor of the next page, and 0 behind the last one. A page with a Next may be short, or empty.
	Next uint64 `json:"next,string,omitzero"`
}

// Store lists lockouts. The error wraps service.ErrNotFound if there is no such zone, and service.ErrBusy if the engine
// is away. A zone that enforces nothing, or has no lockouts any more, lists none, because they do not bind.
type Store interface {
	Locked(ctx context.Context, query Query) (Page, error)
}

// Binds says that lockouts of a zone lock buckets now.
func Binds(zone service.Zone) bool { return zone.Lockout > 0 && Enforces(zone) }

// Enforces says that a zone blocks at all.
func Enforces(zone service.Zone) bool { return zone.WithDefaults().Mode == service.ModeEnforce }

// All returns all lockouts of a zone, unless they are more than most: then the error wraps service.ErrConflict.
func All(ctx context.Context, store Store, zoneID int64, most int) (all []Lockout, err error) {
	for q := (Query{ZoneID: zoneID, Limit: MaxLimit}); ; {
		page, err := store.Locked(ctx, q)
		if err != nil {
			return nil, err
		}
		if all = append(all, page.Lockouts...); len(all) > most {
			return nil, fmt.Errorf("%w: zone %d has more than %d lockouts", service.ErrConflict, zoneID, most)
		}
		switch {
		case page.Next == 0:
			return all, nil
		case q.Cursor != 0 && page.Next >= q.Cursor:
			return nil, fmt.Errorf("list the lockouts of zone %d behind txn %d: the next page begins behind txn %d", zoneID,
				q.Cursor, page.Next)
		}
		q.Cursor = page.Next
	}
}
