package retention

import (
	"context"
	"database/sql"
	"fmt"
	"strings"
	"time"

	"github.com/jmoiron/sqlx"

	"velocityd/db/session"
)

// mostExpected is where the counting of rows that would leave ends.
const mostExpected = 100_000

// Leaving is something that a task would remove now.
type Leaving struct {
	Task string `json:"task"`
	What string `json:"what"` // such as partition p20261101
	Rows int64  `json:"rows"` // by the engine's estimate, or counted up to mostExpected; -1 if nothing tells that quickly
}

// Expect returns what the tasks would remove now. It changes nothing, and takes no lock. It does NOT look for idle
// buckets and old events, nor count the txns that leave in batches: that would read all of them.
func (r *Runner) Expect(ctx context.Context) (list []Leaving, err error) {
	err = r.pool.On(ctx, func(conn *sqlx.Conn) error {
		b, err := readBounds(ctx, conn)
		if err != nil || b.now.IsZero() {
			return err
		}
		isPartitioned, err := b.expectPartitions(ctx, conn, &list)
		if err != nil {
			return err
		}
		for _, days := range b.days() {
			if days < b.longest || !isPartitioned {
				list = append(list, Leaving{"old_txns", fmt.Sprintf("txns of zones that are kept for %d days, before %s", days,
					b.cut(days).Format(time.DateTime)), -1})
			}
		}
		return b.expectExpired(ctx, conn, &list)
	})
	if err != nil {
		return nil, fmt.Errorf("look what would leave: %w", session.LookupError(err))
	}
	return list, nil
}

// expectPartitions adds the partitions that no zone keeps, and says whether there are any.
func (b *bounds) expectPartitions(ctx context.Context, on *sqlx.Conn, list *[]Leaving) (isPartitioned bool, err error) {
	var partitions []struct {
		Name string        `db:"name"`
		End  string        `db:"ends"`
		Rows sql.NullInt64 `db:"number"`
	}
	err = on.SelectContext(ctx, &partitions, `
SELECT partition_name AS name, partition_description AS ends, table_rows AS number
  FROM information_schema.partitions
 WHERE table_schema = DATABASE()
   AND table_name = 'zone_txn'
   AND partition_method = 'RANGE COLUMNS'
   AND REPLACE(partition_expression, '`+"`"+`', '') = 'created_at'
 ORDER BY partition_ordinal_position`)
	for _, p := range partitions {
		end, unread := time.Parse(time.DateOnly, strings.Trim(p.End, "'")[:min(len(time.DateOnly), len(strings.Trim(p.End, "'")))])
		if unread == nil && b.longest > 0 && !end.After(b.cut(b.longest)) {
			*list = append(*list, Leaving{"old_partitions", "partition " + p.Name, p.Rows.Int64})
		}
	}
	return len(partitions) > 0, err
}

// expectExpired adds the rows that expire by themselves.
func (b *bounds) expectExpired(ctx context.Context, on *sqlx.Conn, list *[]Leaving) error {
	for _, one := range []struct {
		task, what, from string
		before           time.Time
	}{
		{"expired_attempts", "attempt ids", "zone_attempt WHERE expires_at < ?", b.now.Add(-attemptMargin)},
		{"expired_overrides", "overrides", "zone_override WHERE expires_at < ?", b.now.Add(-day)},
		{"old_audit", "changes", "zone_audit WHERE changed_at < ?", b.now.AddDate(0, 0, -b.audit)},
	} {
		if one.task == "old_audit" && b.audit == 0 {
			continue
		}
		var rows int64
		if err := on.GetContext(ctx, &rows, fmt.Sprintf("SELECT COUNT(*) FROM (SELECT 1 FROM %s LIMIT %d) AS leaving", one.from, mostExpected),
			one.before); err != nil {
			if session.IsOneOf(err, session.LackingRight()) {
				rows = -1 // the service's account may not read all of zone_audit
			} else {
				return err
			}
		}
		if rows != 0 {
			*list = append(*list, Leaving{one.task, one.what, rows})
		}
	}
	return nil
}
