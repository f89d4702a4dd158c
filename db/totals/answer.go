package totals

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"velocityd/db/session"
	"velocityd/service"
)

// ZoneTotals implements service.TotalsStore.
func (s *Store) ZoneTotals(
	ctx context.Context, zoneID int64, query service.TotalsQuery,
) (t service.ZoneTotals, err error) {
	if _, err := s.keeps(ctx, zoneID); err != nil {
		return t, err
	}
	err = s.steadily(ctx, func(p progress) error {
		q, err := query.At(p.Now)
		if err != nil {
			return err
		}
		from, to := p.live()
		t = service.ZoneTotals{ZoneID: zoneID, TotalsQuery: q, CountedTo: to}
		kept, err := s.zoneHours(ctx, zoneID, q)
		if err != nil {
			return err
		}
		live, err := s.liveHours(ctx, q, from, to.CountedTo.Time, "PRIMARY", "zone_id = ?", zoneID)
		t.Spans = spansOf(append(kept, live...), q, p)
		return err
	})
	if err != nil {
		return service.ZoneTotals{}, fmt.Errorf("totals of zone %d: %w", zoneID, err)
	}
	return t, nil
}

// TotalsWithin implements zonereport.Source.
func (s *Store) TotalsWithin(
	ctx context.Context, zoneID int64, since, until time.Time,
) (service.Totals, error) {
	within, args, err := s.ids.within(ctx, since, until)
	if err != nil {
		return service.Totals{}, err
	}
	sum := struct {
		numbers
		LastAt sql.Null[time.Time] `db:"last_at"`
	}{}
	err = s.pool.GetContext(ctx, &sum, `
SELECT `+sums+`
  FROM zone_txn FORCE INDEX (PRIMARY)
 WHERE zone_id = ?
   AND `+within, append([]any{zoneID}, args...)...)
	return service.Totals(sum.numbers), session.LookupError(err)
}

// keeps says whether a zone has totals of its buckets.
func (s *Store) keeps(ctx context.Context, zoneID int64) (keeps bool, err error) {
	err = s.pool.GetContext(ctx, &keeps, `
SELECT totals
  FROM zone_master
 WHERE id = ?`, zoneID)
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return false, fmt.Errorf("zone %d: %w", zoneID, service.ErrNotFound)
	case err != nil:
		return false, fmt.Errorf("read zone %d: %w", zoneID, session.LookupError(err))
	}
	return keeps, nil
}

// zoneHours reads the hours of a zone that are rolled up.
func (s *Store) zoneHours(ctx context.Context, zoneID int64, q service.TotalsQuery) (rows []row, err error) {
	err = s.pool.SelectContext(ctx, &rows, `
SELECT hour AS begins_at, `+counts+`, buckets
  FROM zone_hour
 WHERE zone_id = ?
   AND hour >= ?
   AND hour < ?
 ORDER BY hour`, zoneID, q.Since.Time, q.By.End(q.By.Begin(q.Until.Time)))
	return rows, err
}

// spansOf sums rows up by the spans of a query, in order, and leaves out those that it does not ask for.
func spansOf(rows []row, q service.TotalsQuery, p progress) []service.SpanTotals {
	spans := make([]service.SpanTotals, 0, len(rows))
	for _, r := range rows {
		begin := q.By.Begin(r.BeginsAt)
		if !q.Holds(begin) {
			continue
		}
		span := service.SpanTotals{BeginsAt: service.At(begin), Totals: r.totals(), Final: !q.By.End(begin).After(p.FinalTo)}
		if q.By == service.SpanHour && span.Final && r.Buckets.Valid {
			span.Buckets = &r.Buckets.V
		}
		spans = append(spans, span)
	}
	return service.MergeSpans(spans)
}

// liveHours counts the attempts from an instant to another one by hour, in order. index is the one that where needs.
func (s *Store) liveHours(
	ctx context.Context, q service.TotalsQuery, from, to time.Time, index, where string, args ...any,
) ([]row, error) {
	if !from.Before(to) || !q.By.End(q.By.Begin(q.Until.Time)).After(from) && index == "PRIMARY" {
		return nil, nil
	}
	ids := s.ids
	if index != "PRIMARY" {
		ids = nil // created_at is in the index
	}
	within, bounds, err := ids.within(ctx, from, time.Time{})
	if err != nil {
		return nil, err
	}
	var rows []row
	err = s.pool.SelectContext(ctx, &rows, `
SELECT MIN(created_at) AS begins_at, `+sums+`
  FROM zone_txn FORCE INDEX (`+index+`)
 WHERE `+where+`
   AND `+within+`
 GROUP BY DATE(created_at), HOUR(created_at)
 ORDER BY begins_at`, append(args, bounds...)...)
	return rows, err
}

// BucketTotals implements service.TotalsStore.
func (s *Store) BucketTotals(
	ctx context.Context, bucket service.Bucket, query service.TotalsQuery,
) (t service.BucketTotals, err error) {
	if err := bucket.Validate(); err != nil {
		return t, err
	}
	switch keeps, err := s.keeps(ctx, bucket.ZoneID); {
	case err != nil:
		return t, err
	case !keeps:
		return t, service.NoTotals(bucket.ZoneID)
	}
	err = s.steadily(ctx, func(p progress) error {
		q, err := query.At(p.Now)
		if err != nil {
			return err
		}
		from, to := p.live()
		t = service.BucketTotals{Bucket: bucket, TotalsQuery: q, CountedTo: to, CountedSince: service.At(from)}
		err = s.pool.GetContext(ctx, &t.CountedSince.Time, `
SELECT since
  FROM zone_totals_since
 WHERE zone_id = ?`, bucket.ZoneID)
		if err != nil && !errors.Is(err, sql.ErrNoRows) {
			return err
		}
		return s.addBucket(ctx, &t, p)
	})
	if err != nil {
		return service.BucketTotals{}, fmt.Errorf("totals of a bucket of zone %d: %w", bucket.ZoneID, err)
	}
	return t, nil
}

// addBucket adds the stored totals of a bucket, and its txns that are not rolled up yet.
func (s *Store) addBucket(ctx context.Context, t *service.BucketTotals, p progress) error {
	var rows []row
	err := s.pool.SelectContext(ctx, &rows, `
SELECT zone_id, bucket_key, span, begins_at, `+counts+`, last_at
  FROM zone_bucket_total
 WHERE zone_id = ?
   AND bucket_key = ?
   AND (span = 'all' OR span = ? AND begins_at >= ? AND begins_at < ?)
 ORDER BY begins_at`, t.Bucket.ZoneID, t.Bucket.Key, string(t.By), t.Since.Time, t.Until.Time)
	if err != nil {
		return err
	}
	live, err := s.liveHours(ctx, t.TotalsQuery, p.RolledUpTo, t.CountedTo.CountedTo.Time, "zone_txn_window",
		"zone_id = ? AND bucket_key = ? AND counted IN (0, 1)", t.Bucket.ZoneID, t.Bucket.Key)
	if err != nil {
		return err
	}
	var spans []row
	for _, r := range rows {
		if r.Span == string(t.By) {
			spans = append(spans, r)
			continue
		}
		t.All, t.LastAt.Time = r.totals(), r.LastAt
	}
	for _, r := range live {
		t.All = t.All.Plus(r.totals())
		if r.LastAt.After(t.LastAt.Time) {
			t.LastAt.Time = r.LastAt
		}
	}
	t.Spans = spansOf(append(spans, live...), t.TotalsQuery, p)
	return nil
}
