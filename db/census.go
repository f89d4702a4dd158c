package db

import (
	"context"
	"fmt"

	"velocityd/service"
)

// Census returns how many buckets are locked out and how many overrides there are, for every
// zone. It takes no lock. It reads the lock rows of all buckets of those zones that have
// lockouts, which takes about a second for some million buckets. The error wraps
// service.ErrBusy if the engine is away.
func (s *Store) Census(ctx context.Context) ([]service.ZoneCensus, error) {
	var zones []struct {
		ID     int64 `db:"id"`
		Locked int   `db:"locked"`
	}
	// A zone without lockouts has no locked bucket, whatever its rows say.
	if err := s.pool.SelectContext(ctx, &zones, `
SELECT z.id,
       IF(z.lockout > 0,
          (SELECT COUNT(*) FROM zone_bucket_lock AS l WHERE l.zone_id = z.id AND l.locked_until > UTC_TIMESTAMP(6)), 0) AS locked
  FROM zone_master AS z
 ORDER BY z.id`); err != nil {
		return nil, fmt.Errorf("count locked buckets: %w", lookupError(err))
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
		return nil, fmt.Errorf("count overrides: %w", lookupError(err))
	}
	census, places := make([]service.ZoneCensus, len(zones)), make(map[int64]int, len(zones))
	for i, zone := range zones {
		census[i], places[zone.ID] = service.ZoneCensus{ZoneID: zone.ID, Locked: zone.Locked, Overrides: map[service.OverrideAction]int{}}, i
	}
	for _, row := range overrides {
		if i, ok := places[row.ZoneID]; ok { // otherwise the zone was made meanwhile
			census[i].Overrides[service.OverrideAction(row.Action)] = row.Number
		}
	}
	return census, nil
}
