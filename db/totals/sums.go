package totals

import (
	"database/sql"
	"strings"
	"time"

	"velocityd/service"
)

// sums are the numbers of service.Totals over rows of zone_txn, and the time of the newest attempt. They count as
// service.Totals.Add does.
const sums = `COALESCE(SUM(1 + COALESCE(repeats, 0)), 0) AS attempts,
       COALESCE(SUM(CASE WHEN blocked THEN 0 ELSE 1 + COALESCE(repeats, 0) END), 0) AS allowed,
       COALESCE(SUM(CASE WHEN blocked THEN 1 + COALESCE(repeats, 0) ELSE 0 END), 0) AS blocked,
       COALESCE(SUM(CASE WHEN would_block THEN 1 + COALESCE(repeats, 0) ELSE 0 END), 0) AS would_block,
       COUNT(CASE WHEN outcome = 'success' THEN 1 END) AS successes,
       COUNT(CASE WHEN outcome = 'failure' THEN 1 END) AS failures,
       MAX(COALESCE(repeated_at, created_at)) AS last_at`

// counts are the columns of service.Totals.
const counts = "attempts, allowed, blocked, would_block, successes, failures"

// numbers are service.Totals with their columns.
type numbers struct {
	Attempts   int64 `db:"attempts"`
	Allowed    int64 `db:"allowed"`
	Blocked    int64 `db:"blocked"`
	WouldBlock int64 `db:"would_block"`
	Successes  int64 `db:"successes"`
	Failures   int64 `db:"failures"`
}

// row is a row of sums, or one that is kept of them. Each statement reads some of its columns.
type row struct {
	ZoneID   int64     `db:"zone_id"`
	Key      string    `db:"bucket_key"`
	Span     string    `db:"span"`
	BeginsAt time.Time `db:"begins_at"`
	numbers
	LastAt  time.Time       `db:"last_at"`
	Buckets sql.Null[int64] `db:"buckets"`
}

func (r row) totals() service.Totals { return service.Totals(r.numbers) }

func (r row) bucket() service.Bucket { return service.Bucket{ZoneID: r.ZoneID, Key: r.Key} }

// values are the counts of the row, as arguments.
func (r row) values() []any {
	return []any{r.Attempts, r.Allowed, r.Blocked, r.WouldBlock, r.Successes, r.Failures}
}

// assign returns assignments for ON DUPLICATE KEY UPDATE: each count becomes the new one, or the sum of both.
func assign(isSum bool) string {
	columns := strings.Split(counts, ", ")
	for i, column := range columns {
		columns[i] = column + " = VALUES(" + column + ")"
		if isSum {
			columns[i] = column + " = " + column + " + VALUES(" + column + ")"
		}
	}
	return strings.Join(columns, ", ")
}

// list returns n times text, with commas between.
func list(n int, text string) string { return strings.Repeat(text+", ", n-1) + text }
