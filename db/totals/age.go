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

var _ retention.Task = Age{}

// Name implements retention.Task.
func (Age) Name() string { return "totals-age" }

// Every implements retention.Task.
func (Age) Every() time.Duration { return time.Hour }

// Run implements retention.Task.
func (Age) Run(ctx context.Context, on *sqlx.Conn, _ string) (result retention.Result, err error) {
	p, _, err := readProgress(ctx, on)
	if err != nil {
		return result, fmt.Errorf("read the progress of totals: %w", err)
	}
	end := time.Now().Add(retention.Budget)
	for _, kept := range []struct {
		span service.Span
		days int
	}{{service.SpanHour, service.HourTotalsDays}, {service.SpanDay, service.DayTotalsDays}} {
		before := p.Now.AddDate(0, 0, -kept.days)
		if p.FinalTo.Before(before) {
			before = p.FinalTo
		}
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
 LIMIT ?`, string(kept.span), kept.span.Begin(before), removedAtOnce)
			if err != nil {
				return result, fmt.Errorf("remove the totals of a %s: %w", kept.span, err)
			}
			n, err := done.RowsAffected()
			if err != nil {
				return result, fmt.Errorf("remove the totals of a %s: %w", kept.span, err)
			}
			result.Removed, more = result.Removed+n, n == removedAtOnce
		}
	}
	return result, nil
}
