package db

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"velocityd/db/history"
	"velocityd/service"
	"velocityd/service/explain"
)

// lockoutsBack is how many times the longest lockout and its decay an explanation looks back for earlier lockouts.
const lockoutsBack = 8

// Explain says why an attempt was decided as it was. Its work is bounded, and it takes no lock. The error wraps
// service.ErrNotFound if there is no txn of that id, and service.ErrBusy if the engine is away.
func (s *Store) Explain(ctx context.Context, id uint64) (explain.Explanation, error) {
	e, err := s.gather(ctx, id)
	if err != nil {
		return explain.Explanation{}, fmt.Errorf("explain txn %d: %w", id, err)
	}
	return explain.Of(e), nil
}

// gather reads the evidence of a txn: the rows of its buckets, and the zones and overrides as they were.
func (s *Store) gather(ctx context.Context, id uint64) (e explain.Evidence, err error) {
	if e.Txn, err = s.History.Txn(ctx, id); err != nil {
		return e, err
	}
	if e.Check, e.Missing, err = s.History.Check(ctx, e.Txn); err != nil {
		return e, err
	}
	own := slices.IndexFunc(e.Check, func(t service.Txn) bool { return t.ID == id })
	if own < 0 {
		return e, fmt.Errorf("its row went meanwhile: %w", service.ErrNotFound)
	}
	e.Txn = e.Check[own] // its key may have been erased since
	at := e.Txn.CreatedAt.Time
	if err := s.readRecords(ctx, &e, at.Add(-explain.Lag)); err != nil {
		return e, err
	}
	first := at
	for _, t := range e.Check {
		past, err := s.past(ctx, t, reachOf(e.Records, t.Bucket.ZoneID), explain.MostRows/len(e.Check))
		if err != nil {
			return e, err
		}
		e.Buckets = append(e.Buckets, past)
		for _, row := range past.Rows {
			if row.Reason == service.ReasonLockout && row.CreatedAt.Before(first) {
				first = row.CreatedAt.Time
			}
		}
	}
	if first.Before(at) { // they depend on the edits of their time
		if err := s.readRecords(ctx, &e, first.Add(-explain.Lag)); err != nil {
			return e, err
		}
	}
	if e.Oldest, err = s.History.Oldest(ctx); err != nil {
		return e, err
	}
	e.Previous, e.Next, err = s.History.Neighbours(ctx, e.Txn)
	return e, err
}

func (s *Store) readRecords(ctx context.Context, e *explain.Evidence, since time.Time) (err error) {
	buckets := make([]service.Bucket, len(e.Check))
	for i, t := range e.Check {
		buckets[i] = t.Bucket
	}
	e.Records, e.Now, err = s.Records.Past(ctx, buckets, since)
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
			far.window = max(far.window, o.Window.Duration)
		}
	}
	for _, e := range r.Edits {
		if e.ZoneBefore != nil && e.ZoneBefore.ID == zoneID {
			ofZone(*e.ZoneBefore)
		}
		if e.OverrideBefore != nil && e.OverrideBefore.ZoneID == zoneID {
			far.window = max(far.window, e.OverrideBefore.Window.Duration)
		}
	}
	return far
}

// past reads the past of a txn's bucket: at most so many txns that count now, and so many others.
func (s *Store) past(ctx context.Context, txn service.Txn, far reach, most int) (p explain.Past, err error) {
	at := txn.CreatedAt.Time
	p.Since = at.Add(-max(far.window, far.lockouts))
	for _, span := range []history.Span{
		// Txns of before a clock was set back have later instants.
		{Bucket: txn.Bucket, IsCounted: true, Since: at.Add(-far.window), Until: at.Add(far.window)},
		{Bucket: txn.Bucket, Since: p.Since, Until: at},
	} {
		rows, cut, err := s.History.Newest(ctx, span, txn, most)
		if err != nil {
			return p, err
		}
		p.Rows = append(p.Rows, rows...)
		if cut.After(p.Cut) {
			p.Cut = cut
		}
		if !span.IsCounted && cut.After(p.Since) {
			p.Since = cut
		}
	}
	// The place of a txn may have been given back between the two statements.
	slices.SortStableFunc(p.Rows, func(a, b service.Txn) int { return cmp.Compare(a.ID, b.ID) })
	p.Rows = slices.CompactFunc(p.Rows, func(a, b service.Txn) bool { return a.ID == b.ID })
	p.Last, err = s.History.Lockout(ctx, txn.Bucket)
	return p, err
}
