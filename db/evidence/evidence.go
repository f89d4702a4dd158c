// Package evidence reads all that the explanation of a recorded attempt is made of: the rows of its buckets, and the
// zones and overrides as they were. Its work is bounded, and it takes no lock. It must not know how a check is decided.
package evidence

import (
	"context"
	"fmt"
	"slices"
	"time"

	"velocityd/db/history"
	"velocityd/db/records"
	"velocityd/service"
	"velocityd/service/explain"
)

// lockoutsBack is how many times the longest lockout and its decay an explanation looks back for earlier lockouts.
const lockoutsBack = 8

// Explainer explains recorded attempts of one database. It may be used by many goroutines at once.
type Explainer struct {
	history *history.Reader
	records *records.Tables
}

// New returns an Explainer of the attempts and the records of one database.
func New(attempts *history.Reader, tables *records.Tables) *Explainer {
	return &Explainer{history: attempts, records: tables}
}

// Explain says why an attempt was decided as it was. The error wraps service.ErrNotFound if there is no txn of that
// id, and service.ErrBusy if the engine is away.
func (r *Explainer) Explain(ctx context.Context, id uint64) (explain.Explanation, error) {
	e, err := r.gather(ctx, id)
	if err != nil {
		return explain.Explanation{}, fmt.Errorf("explain txn %d: %w", id, err)
	}
	return explain.Of(e), nil
}

// gather reads the evidence of a txn.
func (r *Explainer) gather(ctx context.Context, id uint64) (e explain.Evidence, err error) {
	if e.Txn, err = r.history.Txn(ctx, id); err != nil {
		return e, err
	}
	if e.Check, e.Missing, err = r.history.Check(ctx, e.Txn); err != nil {
		return e, err
	}
	own := slices.IndexFunc(e.Check, func(t service.Txn) bool { return t.ID == id })
	if own < 0 {
		return e, fmt.Errorf("its row went meanwhile: %w", service.ErrNotFound)
	}
	e.Txn = e.Check[own] // its key may have been erased since
	at := e.Txn.CreatedAt
	if err := r.readRecords(ctx, &e, at.Add(-explain.Lag)); err != nil {
		return e, err
	}
	first := at
	for _, t := range e.Check {
		past, err := r.past(ctx, t, reachOf(e.Records, t.Bucket.ZoneID), explain.MostRows/len(e.Check))
		if err != nil {
			return e, err
		}
		e.Buckets = append(e.Buckets, past)
		if len(past.Lockouts) > 0 && past.Lockouts[0].CreatedAt.Before(first) {
			first = past.Lockouts[0].CreatedAt
		}
	}
	if first.Before(at) { // they depend on the changes and releases of their time
		if err := r.readRecords(ctx, &e, first.Add(-explain.Lag)); err != nil {
			return e, err
		}
	}
	if e.Oldest, err = r.history.Oldest(ctx); err != nil {
		return e, err
	}
	e.Previous, e.Next, err = r.history.Beside(ctx, e.Txn)
	return e, err
}

func (r *Explainer) readRecords(ctx context.Context, e *explain.Evidence, since time.Time) (err error) {
	buckets := make([]service.Bucket, len(e.Check))
	for i, t := range e.Check {
		buckets[i] = t.Bucket
	}
	e.Records, e.Now, err = r.records.Past(ctx, buckets, since)
	return err
}

// reach is how far back the state of a bucket may go.
type reach struct {
	window   time.Duration // of the longest limit
	lockouts time.Duration
}

// reachOf returns how far back the states of a zone's buckets may go, by all settings that it is known to have had.
func reachOf(r explain.Records, zoneID int64) (far reach) {
	ofZone := func(zone service.Zone) {
		far.window = max(far.window, zone.Window)
		if zone.Lockout > 0 {
			far.lockouts = max(far.lockouts, lockoutsBack*(zone.LockoutMax+zone.LockoutDecay))
		}
	}
	if zone, exists := r.Zones[zoneID]; exists {
		ofZone(zone)
	}
	for _, o := range r.Overrides {
		if o.ZoneID == zoneID {
			far.window = max(far.window, o.Window)
		}
	}
	for _, c := range r.Changes {
		switch {
		case c.ZoneID != zoneID:
		case c.Zone != nil:
			ofZone(*c.Zone)
		case c.Override != nil:
			far.window = max(far.window, c.Override.Window)
		}
	}
	return far
}

// past reads the past of a txn's bucket: the txns that may have counted, and those with which lockouts began. most is how
// many txns it looks at: so many that count now, and so many others.
func (r *Explainer) past(ctx context.Context, txn service.Txn, far reach, most int) (p explain.Past, err error) {
	at := txn.CreatedAt
	// Txns of before a clock was set back have later instants.
	counted := history.Span{Bucket: txn.Bucket, Since: at.Add(-far.window), Until: at.Add(far.window)}
	if p.Rows, err = r.history.Counted(ctx, counted, at, txn.ID, most+1); err != nil {
		return p, err
	}
	if len(p.Rows) > most {
		p.Cut = p.Rows[most].CreatedAt
		p.Rows = p.Rows[:most]
	}
	span := history.Span{Bucket: txn.Bucket, Since: at.Add(-max(far.window, far.lockouts)), Until: at}
	cut, err := r.history.Cut(ctx, span, most)
	if err != nil {
		return p, err
	}
	if !cut.IsZero() {
		span.Since = cut.Add(time.Microsecond)
	}
	if cut.After(p.Cut) {
		p.Cut = cut
	}
	others, err := r.history.Uncounted(ctx, span, at, most)
	if err != nil {
		return p, err
	}
	p.LockoutsSince = span.Since
	seen := make(map[uint64]bool, len(p.Rows))
	for _, t := range p.Rows {
		seen[t.ID] = true
	}
	for i := range others {
		switch t := others[len(others)-1-i]; { // the oldest first
		case t.Reason == service.ReasonLockout:
			p.Lockouts = append(p.Lockouts, t)
		case !seen[t.ID]: // its place may have been given back between the two statements
			p.Rows = append(p.Rows, t)
		}
	}
	p.Last, err = r.history.Lockout(ctx, txn.Bucket)
	return p, err
}
