package totals

import (
	"context"
	"fmt"
	"time"

	"github.com/jmoiron/sqlx"

	"velocityd/db/retention"
	"velocityd/service"
)

// removedAtOnce is how many rows one statement removes.
const removedAtOnce = 1000

// Age is the task that removes old hours and days of buckets. Their months and the totals of all time stay, and so do
// the hours of zones. Hours that are not final stay, too.
type Age struct{}

var _ retention.Forecaster = Age{}

// Name implements retention.Task.
func (Age) Name() string { return "totals-age" }

// Every implements retention.Task.
func (Age) Every() time.Duration { return time.Hour }

// Run implements retention.Task.
func (Age) Run(ctx context.Context, on *sqlx.Conn, _ string) (result retention.Result, err error) {
	spans, err := oldSpans(ctx, on)
	if err != nil {
		return result, err
	}
	end := time.Now().Add(retention.Budget)
	for _, old := range spans {
		for more := true; more; {
			if time.Now().After(end) {
				result.Backlog = true
				return result, nil
			}
			done, err := on.ExecContext(ctx, `
DELETE FROM zone_bucket_total
 WHERE span = ?
   AND begins_at < ?
 ORDER BY span, begins_at, zone_id, bucket_key
 LIMIT ?`, string(old.span), old.before, removedAtOnce)
			if err != nil {
				return result, fmt.Errorf("remove the totals of a %s: %w", old.span, err)
			}
			n, err := done.RowsAffected()
			if err != nil {
				return result, fmt.Errorf("remove the totals of a %s: %w", old.span, err)
			}
			result.Removed, more = result.Removed+n, n == removedAtOnce
		}
	}
	return result, nil
}

// oldSpan is an instant before which spans of a length are removed.
type oldSpan struct {
	span   service.Span
	before time.Time
}

// oldSpans returns the bounds of the spans that are removed.
func oldSpans(ctx context.Context, on *sqlx.Conn) ([]oldSpan, error) {
	p, _, err := readProgress(ctx, on)
	if err != nil {
		return nil, fmt.Errorf("read the progress of totals: %w", err)
	}
	before := func(span service.Span, days int) oldSpan {
		at := p.Now.AddDate(0, 0, -days)
		if p.FinalTo.Before(at) {
			at = p.FinalTo
		}
		return oldSpan{span, span.Begin(at)}
	}
	return []oldSpan{before(service.SpanHour, service.HourTotalsDays), before(service.SpanDay, service.DayTotalsDays)}, nil
}

// Expect implements retention.Forecaster.
func (a Age) Expect(ctx context.Context, on *sqlx.Conn) (list []retention.Leaving, err error) {
	spans, err := oldSpans(ctx, on)
	for _, old := range spans {
		leaving, err := retention.Leaving{Task: a.Name(), What: fmt.Sprintf("totals of each %s", old.span)}.
			Count(ctx, on, "zone_bucket_total WHERE span = ? AND begins_at < ?", string(old.span), old.before)
		if err != nil {
			return nil, err
		}
		list = append(list, leaving...)
	}
	return list, err
}
