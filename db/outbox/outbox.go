// Package outbox reads events. It must not know how they come about, nor which clients follow them.
package outbox

import (
	"context"
	"fmt"
	"math"
	"strconv"
	"time"

	"github.com/jmoiron/sqlx"

	"velocityd/db/session"
	"velocityd/service"
	"velocityd/service/event"
)

// Outbox is the events of a database.
type Outbox struct{ pool *session.Pool }

var _ event.Store = (*Outbox)(nil)

// New returns the events that a pool reads.
func New(pool *session.Pool) *Outbox { return &Outbox{pool: pool} }

// row is a row of zone_event.
type row struct {
	ID     uint64     `db:"id"`
	Type   event.Type `db:"type"`
	At     time.Time  `db:"created_at"`
	ZoneID int64      `db:"zone_id"`
	Key    string     `db:"bucket_key"`
	TxnID  uint64     `db:"txn_id"`
	Data   []byte     `db:"data"`
	Now    time.Time  `db:"read_at"`
}

func (r row) event() event.Event {
	return event.Event{
		ID: r.ID, Type: r.Type, At: service.At(r.At), Bucket: service.Bucket{ZoneID: r.ZoneID, Key: r.Key}, TxnID: r.TxnID,
		Data: r.Data,
	}
}

const selectEvents = `
SELECT id, type, created_at, zone_id, bucket_key, COALESCE(txn_id, 0) AS txn_id, data, UTC_TIMESTAMP(6) AS read_at
  FROM zone_event`

// Events implements event.Store. It reads MaxScan rows by the primary key, or those of a bucket by its index, and
// chooses among them.
func (o *Outbox) Events(ctx context.Context, q event.Query) (event.Page, error) {
	if err := q.Validate(); err != nil {
		return event.Page{}, err
	}
	statement, args, err := statementOf(q)
	if err != nil {
		return event.Page{}, fmt.Errorf("read events: %w", err)
	}
	var rows []row
	if err := o.pool.SelectContext(ctx, &rows, statement, args...); err != nil {
		return event.Page{}, fmt.Errorf("read events: %w", session.LookupError(err))
	}
	return pageOf(q, rows), nil
}

func statementOf(q event.Query) (statement string, args []any, err error) {
	from, order := "id > ?", "ASC"
	if args = []any{q.Cursor}; q.Order == service.NewestFirst {
		from, order = "id < ?", "DESC"
		if q.Cursor == 0 {
			args[0] = uint64(math.MaxInt64) // behind all: no id is higher
		}
	}
	statement = selectEvents + "\n WHERE " + from
	if len(q.Keys) > 0 {
		statement += "\n   AND zone_id = ?\n   AND bucket_key IN (?)"
		args = append(args, q.Zones[0], q.Keys)
	}
	return sqlx.In(statement+"\n ORDER BY id "+order+"\n LIMIT "+strconv.Itoa(event.MaxScan), args...)
}

// pageOf returns the page of a query, of the rows behind its cursor.
func pageOf(q event.Query, rows []row) event.Page {
	page := event.Page{Last: q.Cursor}
	for _, r := range rows {
		if q.Order == service.OldestFirst && r.At.After(r.Now.Add(-service.HistoryLag)) {
			return page
		}
		if len(page.Events) == q.Limit {
			page.Next = page.Last
			return page
		}
		page.Last = r.ID
		if e := r.event(); q.Matches(e) {
			page.Events = append(page.Events, e)
		}
	}
	if len(rows) == event.MaxScan {
		page.Next = page.Last
	}
	return page
}
