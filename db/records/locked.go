package records

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"velocityd/db/session"
	"velocityd/service"
	"velocityd/service/lockout"
)

var _ lockout.Store = (*Tables)(nil)

// lockoutRow is a row of zone_lockout.
type lockoutRow struct {
	Key    string         `db:"bucket_key"`
	Since  time.Time      `db:"locked_at"`
	Until  time.Time      `db:"locked_until"`
	Reason service.Reason `db:"reason"`
	TxnID  uint64         `db:"txn_id"`
}

// Locked implements lockout.Store. It reads as many rows as the page may have lockouts and leaves out those that have
// ended, whose rows a task of retention removes.
func (s *Tables) Locked(ctx context.Context, q lockout.Query) (lockout.Page, error) {
	if err := q.Validate(); err != nil {
		return lockout.Page{}, err
	}
	page, binds, err := s.locking(ctx, q)
	if err != nil || !binds {
		return page, err
	}
	limit := cmp.Or(q.Limit, lockout.DefaultLimit)
	var rows []lockoutRow
	err = s.pool.SelectContext(ctx, &rows, `
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
			page.Lockouts = append(page.Lockouts, lockout.Lockout{
				Key: r.Key, Since: service.At(r.Since),
				Until: service.At(r.Until), Reason: r.Reason, TxnID: r.TxnID,
			})
		}
	}
	return page, nil
}

// locking returns a page without lockouts, and whether those of the zone bind anybody.
func (s *Tables) locking(ctx context.Context, q lockout.Query) (page lockout.Page, binds bool, err error) {
	var zone struct {
		At      time.Time    `db:"at"`
		Lockout int64        `db:"lockout"`
		Mode    service.Mode `db:"mode"`
	}
	page.ZoneID = q.ZoneID
	err = s.pool.GetContext(ctx, &zone, `
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
	return page, lockout.Binds(service.Zone{Lockout: service.Seconds(zone.Lockout), Mode: zone.Mode}), nil
}
