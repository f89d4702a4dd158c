package records

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/jmoiron/sqlx"

	"velocityd/db/session"
	"velocityd/db/zonerow"
	"velocityd/service"
)

const (
	// wholeListPause is how old a ZoneList may be whose zones were all read at once. An edit by plain SQL
	// writes no row of zone_audit where there are no triggers, and the row of a transaction that
	// commits late has a lower id than others that were seen before.
	wholeListPause = time.Minute
	// mostChanges is after how many rows of zone_audit all zones are read.
	mostChanges = 1000
)

// ZoneList is all zones by id, as RenewZones has read them.
type ZoneList struct {
	Zones []service.Zone
	// ReadAt is when the latest reading of all zones at once began; the zero time stands for never.
	ReadAt time.Time
	newest uint64 // id in zone_audit of the newest change that was seen
}

// RenewZones returns the list as it is now. It reads only the zones that zone_audit says were changed
// since known was read. It reads all zones if they are many, once a minute, if known is the zero
// ZoneList, and each time if the account may not read the ids in zone_audit. It does NOT change known.
// The error wraps service.ErrBusy if the engine is away.
func (s *Tables) RenewZones(ctx context.Context, known ZoneList) (ZoneList, error) {
	if time.Since(known.ReadAt) >= wholeListPause {
		known = ZoneList{}
	}
	began := time.Now()
	var changes []auditRow
	err := s.pool.SelectContext(ctx, &changes, `
SELECT id, subject, zone_id
  FROM zone_audit
 WHERE id > ?
 ORDER BY id DESC
 LIMIT ?`, known.newest, mostChanges+1)
	if err = session.LookupError(err); err != nil && !errors.Is(err, service.ErrForbidden) {
		return ZoneList{}, fmt.Errorf("look for changes of zones: %w", err)
	}
	now := known
	if len(changes) > 0 {
		now.newest = changes[0].ID // they come newest first
	}
	if err != nil || known.ReadAt.IsZero() || len(changes) > mostChanges {
		now.ReadAt = began
		now.Zones, err = s.Zones(ctx)
		return now, err
	}
	var ids []int64
	for _, change := range changes {
		if change.Subject == "zone" {
			ids = append(ids, change.ZoneID)
		}
	}
	if len(ids) > 0 {
		now.Zones, err = s.replaceZones(ctx, known.Zones, ids)
	}
	return now, err
}

// replaceZones returns zones with those of some ids as they are now.
func (s *Tables) replaceZones(ctx context.Context, zones []service.Zone, ids []int64) ([]service.Zone, error) {
	slices.Sort(ids)
	ids = slices.Compact(ids)
	has := func(z service.Zone) bool { _, is := slices.BinarySearch(ids, z.ID); return is }
	condition, args, err := sqlx.In(`
 WHERE id IN (?)`, ids)
	if err != nil {
		return nil, fmt.Errorf("read changed zones: %w", err)
	}
	var changed []service.Zone
	err = s.pool.On(ctx, func(conn *sqlx.Conn) (err error) {
		changed, err = zonerow.Zones(ctx, conn, condition, args...)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("read changed zones: %w", session.LookupError(err))
	}
	now := append(slices.DeleteFunc(slices.Clone(zones), has), changed...)
	slices.SortFunc(now, func(a, b service.Zone) int { return cmp.Compare(a.ID, b.ID) })
	return now, nil
}
