package totals

import (
	"context"
	"fmt"

	"github.com/jmoiron/sqlx"

	"velocityd/db/retention"
	"velocityd/service"
)

// Age returns the task that removes old hours and days of buckets. Their months and the totals of all time stay, and so
// do the hours of zones. Hours that are not final stay, too.
func Age() retention.Task { return retention.Old("totals-age", oldSpans) }

// oldSpans returns the spans that are removed.
func oldSpans(ctx context.Context, on *sqlx.Conn) (list []retention.OldRows, err error) {
	p, _, err := readProgress(ctx, on)
	if err != nil {
		return nil, fmt.Errorf("read the progress of totals: %w", err)
	}
	for _, old := range []struct {
		span service.Span
		days int
	}{{service.SpanHour, service.HourTotalsDays}, {service.SpanDay, service.DayTotalsDays}} {
		before := p.Now.AddDate(0, 0, -old.days)
		if p.FinalTo.Before(before) {
			before = p.FinalTo
		}
		list = append(list, retention.OldRows{
			What: fmt.Sprintf("totals of each %s", old.span),
			From: "zone_bucket_total WHERE span = ? AND begins_at < ? ORDER BY span, begins_at, zone_id, bucket_key",
			Args: []any{string(old.span), old.span.Begin(before)},
		})
	}
	return list, nil
}
