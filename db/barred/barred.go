// Package barred lists the lockouts that have begun and not ended, from zone_lockout. It must not know how a lockout
// begins.
package barred

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"velocityd/db/session"
	"velocityd/service"
	"velocityd/service/barred"
)

// List is the list of one database.
type List struct{ pool *session.Pool }

var _ barred.Store = (*List)(nil)

// New returns the list that a pool reaches.
func New(pool *session.Pool) *List { return &List{pool} }

// lockoutRow is a row of zone_lockout.
type lockoutRow struct {
	Key    string         `db:"bucket_key"`
	Since  time.Time      `db:"locked_at"`
	Until  time.Time      `db:"locked_until"`
	Reason service.Reason `db:"reason"`
	TxnID  uint64         `db:"txn_id"`
}

// Locked implements barred.Store. It reads as many rows as the page may have lockouts and leaves out those that have
// ended, whose rows a task of retention removes.
func (l *List) Locked(ctx context.Context, q barred.Query) (barred.Page, error) {
	if err := q.Validate(); err != nil {
		return barred.Page{}, err
	}
	page, binds, err := l.open(ctx, q)
	if err != nil || !binds {
		return page, err
	}
	limit := cmp.Or(q.Limit, barred.DefaultLimit)
	var rows []lockoutRow
	err = l.pool.SelectContext(ctx, &rows, `
SELECT bucket_key, locked_at, locked_until, reason, txn_id
  FROM zone_lockout FORCE INDEX (zone_lockout_txn)
 WHERE zone_id = ?
   AND txn_id < ?
 ORDER BY txn_id DESC
 LIMIT ?`, q.ZoneID, cmp.Or(q.Cursor, 1<<63), limit+1)
	if err != nil {
		return page, fmt.Errorf("list the lockouts of zone %d: %w", q.ZoneID, session.LookupError(err))
	}
	if len(rows) > limit {
		rows = rows[:limit]
		page.Next = rows[limit-1].TxnID
	}
	for _, r := range rows {
		if page.At.Before(r.Until) {
			page.Lockouts = append(page.Lockouts, barred.Lockout{
				Key: r.Key, Since: service.At(r.Since),
				Until: service.At(r.Until), Reason: r.Reason, TxnID: r.TxnID,
			})
		}
	}
	return page, nil
}

// open returns a page without lockouts, and whether those of the zone bind anybody.
func (l *List) open(ctx context.Context, q barred.Query) (page barred.Page, binds bool, err error) {
	var zone struct {
		At      time.Time    `db:"at"`
		Lockout int64        `db:"lockout"`
		Mode    service.Mode `db:"mode"`
	}
	page.ZoneID = q.ZoneID
	err = l.pool.GetContext(ctx, &zone, `
SELECT UTC_TIMESTAMP(6) AS at, lockout, mode
  FROM zone_master
 WHERE id = ?`, q.ZoneID)
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return page, false, fmt.Errorf("zone %d: %w", q.ZoneID, service.ErrNotFound)
	case err != nil:
		return page, false, fmt.Errorf("read zone %d: %w", q.ZoneID, session.LookupError(err))
	}
	page.At.Time = zone.At
	return page, barred.Binds(service.Zone{Lockout: service.Seconds(zone.Lockout), Mode: zone.Mode}), nil
}
