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

// Expect returns the rows that the tasks would remove now, in their order. It does NOT look for idle buckets, nor count
// the txns that leave in batches: that would read all of them.
func (r *Runner) Expect(ctx context.Context) (list []Leaving, err error) {
	err = r.pool.On(ctx, func(conn *sqlx.Conn) error {
		for _, task := range r.tasks {
			if task.Expect == nil {
				continue
			}
			leaving, err := task.Expect(ctx, conn)
			if err != nil {
				return fmt.Errorf("task %s: %w", task.Name, err)
			}
			for _, l := range leaving {
				l.Task = task.Name
				list = append(list, l)
			}
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("look what would leave: %w", session.LookupError(err))
	}
	return list, nil
}

// count counts the rows that a clause behind FROM chooses. It returns no Leaving if there are none.
func count(ctx context.Context, on *sqlx.Conn, what, from string, args ...any) ([]Leaving, error) {
	l := Leaving{What: what}
	err := on.GetContext(
		ctx, &l.Rows, fmt.Sprintf("SELECT COUNT(*) FROM (SELECT 1 FROM %s LIMIT %d) AS leaving", from, mostExpected), args...)
	if err != nil || l.Rows == 0 {
		return nil, err
	}
	return []Leaving{l}, nil
}

// forecast is the reading of a task of batches that counts the rows to remove.
type forecast func(ctx context.Context, on *sqlx.Conn, b *bounds) ([]Leaving, error)

// forecast returns the rows to remove. A database without a policy keeps everything.
func (b batches) forecast(ctx context.Context, on *sqlx.Conn) ([]Leaving, error) {
	if b.expect == nil {
		return nil, nil
	}
	bounds, err := readBounds(ctx, on)
	if err != nil || bounds.now.IsZero() {
		return nil, err
	}
	return b.expect(ctx, on, &bounds)
}

// expectPartitions returns the partitions that no zone keeps.
func expectPartitions(ctx context.Context, on *sqlx.Conn, b *bounds) (list []Leaving, err error) {
	var partitions []struct {
		Name string        `db:"name"`
		End  string        `db:"ends"`
		Rows sql.NullInt64 `db:"number"`
	}
	err = on.SelectContext(ctx, &partitions, `
SELECT partition_name AS name, partition_description AS ends, table_rows AS number
  FROM information_schema.partitions
 WHERE `+isPartition+`
 ORDER BY partition_ordinal_position`)
	for _, p := range partitions {
		end, unread := time.Parse(
			time.DateOnly, strings.Trim(p.End, "'")[:min(len(time.DateOnly), len(strings.Trim(p.End, "'")))])
		if unread == nil && b.longest > 0 && !end.After(b.cut(b.longest)) {
			list = append(list, Leaving{What: "partition " + p.Name, Rows: p.Rows.Int64})
		}
	}
	return list, err
}

// isPartition chooses the partitions that are made and dropped by the clock.
const isPartition = `table_schema = DATABASE()
   AND table_name = 'zone_txn'
   AND partition_method = 'RANGE COLUMNS'
   AND REPLACE(partition_expression, '` + "`" + `', '') = 'created_at'`

// expectTxns returns the txns that leave in batches: all old ones of a table without partitions, and otherwise those of
// zones that are kept for less long than others.
func expectTxns(ctx context.Context, on *sqlx.Conn, b *bounds) (list []Leaving, err error) {
	var partitions int
	if err := on.GetContext(ctx, &partitions, "SELECT COUNT(*) FROM information_schema.partitions WHERE "+
		isPartition); err != nil {
		return nil, err
	}
	for _, days := range b.days() {
		if days < b.longest || partitions == 0 {
			what := fmt.Sprintf("txns of zones that are kept for %d days, before %s", days, b.cut(days).Format(time.DateTime))
			list = append(list, Leaving{What: what, Rows: -1})
		}
	}
	return list, nil
}

// expect counts the rows of a clause behind FROM, whose argument is an instant so long ago.
func expect(what, from string, ago time.Duration) forecast {
	return func(ctx context.Context, on *sqlx.Conn, b *bounds) ([]Leaving, error) {
		return count(ctx, on, what, from, b.now.Add(-ago))
	}
}

// expectOld counts the rows of a table that are older than some days, among the first ones: no index has their time.
func expectOld(what, column, table string, days func(*bounds) int) forecast {
	return func(ctx context.Context, on *sqlx.Conn, b *bounds) ([]Leaving, error) {
		if days(b) == 0 {
			return nil, nil
		}
		from := fmt.Sprintf("(SELECT %s AS at FROM %s ORDER BY id LIMIT %d) AS oldest WHERE at < ?", column, table,
			mostExpected)
		return count(ctx, on, what, from, b.now.AddDate(0, 0, -days(b)))
	}
}
