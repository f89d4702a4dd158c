package records

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/jmoiron/sqlx"

	"velocityd/db/session"
	"velocityd/service"
)

// Census returns how many buckets are locked out and how many overrides there are, for every
// zone. It takes no lock. Where there are shards, it asks
// all of them. The error wraps service.ErrBusy if the engine, or one of its shards, is away.
func (s *Tables) Census(ctx context.Context) ([]service.ZoneStats, error) {
	census, err := s.lockedBuckets(ctx)
	if err != nil {
		return nil, fmt.Errorf("count locked buckets: %w", session.LookupError(err))
	}
	var overrides []struct {
		ZoneID int64  `db:"zone_id"`
		Action string `db:"action"`
		Number int    `db:"number"`
	}
	if err := s.pool.SelectContext(ctx, &overrides, `
SELECT zone_id, action, COUNT(*) AS number
  FROM zone_override
 WHERE expires_at IS NULL
    OR expires_at > UTC_TIMESTAMP(6)
 GROUP BY zone_id, action`); err != nil {
		return nil, fmt.Errorf("count overrides: %w", session.LookupError(err))
	}
	byID := func(zone service.ZoneStats, id int64) int { return cmp.Compare(zone.ZoneID, id) }
	for _, row := range overrides {
		if i, found := slices.BinarySearchFunc(census, row.ZoneID, byID); found { // otherwise the zone was made meanwhile
			census[i].Overrides[service.OverrideAction(row.Action)] = row.Number
		}
	}
	return census, nil
}

// lockedBuckets returns the census of every zone by id, with its locked buckets alone. Zones and buckets
// may lie in different databases behind vtgate. So it asks for them apart, and compares the ends
// of lockouts with the clock of the zones' database.
func (s *Tables) lockedBuckets(ctx context.Context) ([]service.ZoneStats, error) {
	var zones []struct {
		ID      int64        `db:"id"`
		Lockout int64        `db:"lockout"`
		Mode    service.Mode `db:"mode"`
		ReadAt  time.Time    `db:"read_at"`
	}
	if err := s.pool.SelectContext(ctx, &zones, `
SELECT id, lockout, mode, UTC_TIMESTAMP(6) AS read_at
  FROM zone_master
 ORDER BY id`); err != nil {
		return nil, err
	}
	var locking []int64
	for _, zone := range zones {
		if zone.Lockout > 0 && zone.Mode == service.ModeEnforce { // the others lock no key out, even if their rows say so
			locking = append(locking, zone.ID)
		}
	}
	numbers := map[int64]int{}
	if locking != nil {
		var err error
		if numbers, err = s.countLocked(ctx, locking, zones[0].ReadAt); err != nil {
			return nil, err
		}
	}
	census := make([]service.ZoneStats, len(zones))
	for i, zone := range zones {
		census[i] = service.ZoneStats{ZoneID: zone.ID, Locked: numbers[zone.ID], Overrides: map[service.OverrideAction]int{}}
	}
	return census, nil
}

// countLocked returns how many buckets of zones are locked out at an instant. The list of locked buckets has the same
// rows.
func (s *Tables) countLocked(ctx context.Context, zones []int64, at time.Time) (map[int64]int, error) {
	query, args, err := sqlx.In(`
SELECT zone_id, COUNT(*) AS number
  FROM zone_lockout
 WHERE zone_id IN (?)
   AND locked_until > ?
 GROUP BY zone_id`, zones, at)
	if err != nil {
		return nil, err
	}
	var rows []struct {
		ZoneID int64 `db:"zone_id"`
		Number int   `db:"number"`
	}
	if err := s.pool.SelectContext(ctx, &rows, query, args...); err != nil {
		return nil, err
	}
	numbers := make(map[int64]int, len(rows))
	for _, row := range rows {
		numbers[row.ZoneID] = row.Number
	}
	return numbers, nil
}
