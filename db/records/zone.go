package records

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"strings"

	"github.com/jmoiron/sqlx"

	"velocityd/db/session"
	"velocityd/db/zonerow"
	"velocityd/service"
)

// LimitColumns are the columns of zone_master that a decision needs, in the order in which LimitOf
// reads them.
//
//nolint:gochecknoglobals // made once of a table that nothing changes
var (
	ZoneColumns  = "id, " + zonerow.Settings.List("")
	LimitColumns = "id, " + zonerow.Deciding.List("")
	Limits       = 1 + len(zonerow.Deciding)
)

// LimitOf returns the zone whose LimitColumns begin row, and the rest of the row.
func LimitOf(row []driver.Value) (zone service.Zone, rest []driver.Value, err error) {
	zone.ID = session.AsInt(row[0])
	rest, fits := zonerow.Deciding.Read(&zone, row[1:])
	if !fits {
		return zone, nil, session.ErrMisfit
	}
	return zone, rest, nil
}

// Zones returns all zones by id, with every setting spelt out. The error wraps
// service.ErrBusy if the engine is away.
func (s *Tables) Zones(ctx context.Context) ([]service.Zone, error) {
	var zones []service.Zone
	err := s.pool.On(ctx, func(conn *sqlx.Conn) (err error) {
		zones, err = zonerow.Zones(ctx, conn, `
 ORDER BY id`)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("list zones: %w", session.LookupError(err))
	}
	return zones, nil
}

// Zone returns one zone, with every setting spelt out. The error wraps
// service.ErrNotFound if there is none, and service.ErrBusy if the engine is
// away.
func (s *Tables) Zone(ctx context.Context, id int64) (service.Zone, error) {
	var zone service.Zone
	err := s.pool.On(ctx, func(conn *sqlx.Conn) (err error) {
		zone, err = readZone(ctx, conn, id, "")
		return err
	})
	if err != nil {
		return service.Zone{}, fmt.Errorf("read zone %d: %w", id, session.LookupError(err))
	}
	return zone, nil
}

func readZone(ctx context.Context, from zonerow.Querier, id int64, lock string) (service.Zone, error) {
	zones, err := zonerow.Zones(ctx, from, `
 WHERE id = ?`+lock, id)
	switch {
	case err != nil:
		return service.Zone{}, err
	case len(zones) == 0:
		return service.Zone{}, service.ErrNotFound
	}
	return zones[0], nil
}

// PutZone creates a zone or replaces all of it, if the condition of match holds, and
// returns it as it is now: a new zone has revision 1. It takes effect at
// the next check. principal goes to zone_audit. The error wraps
// service.ErrInvalid if the zone breaks a rule, service.ErrPrecondition if match
// fails, and service.ErrBusy if the engine is away.
func (s *Tables) PutZone(
	ctx context.Context, zone service.Zone, match service.Match, principal string,
) (service.Zone, error) {
	if err := zone.Validate(); err != nil {
		return service.Zone{}, err
	}
	var stored service.Zone
	put := func(e *edit) error {
		_, exists, err := lockMatching(ctx, e, zone.ID, match)
		if err != nil {
			return err
		}
		action := auditInsert
		if exists {
			action = auditUpdate
		}
		if err := e.audited(ctx, action, zoneRows(zone.ID), func() error {
			return writeZone(ctx, e, zone, exists)
		}); err != nil {
			return err
		}
		stored, err = readZone(ctx, e, zone.ID, "")
		return err
	}
	err := s.edit(ctx, principal, put)
	if session.IsOneOf(err, []uint16{session.NumberDuplicate, session.NumberSnapshot}) {
		err = s.edit(ctx, principal, put) // it was created at the same time, so its row is locked first now
	}
	if err != nil {
		return service.Zone{}, fmt.Errorf("put zone %d: %w", zone.ID, session.WriteError(err))
	}
	return stored, nil
}

// lockMatching locks the zone's row, and returns the zone and whether there is one. The error
// wraps service.ErrPrecondition if the condition of match does not hold.
func lockMatching(
	ctx context.Context, e *edit, id int64, match service.Match,
) (zone service.Zone, exists bool, err error) {
	zone, err = readZone(ctx, e, id, `
   FOR UPDATE`)
	exists = err == nil
	if err != nil && !errors.Is(err, service.ErrNotFound) {
		return zone, false, err
	}
	switch {
	case match.Absent && exists:
		return zone, exists, fmt.Errorf("%w: the zone exists", service.ErrPrecondition)
	case (match.Present || match.Revision != 0) && !exists:
		return zone, exists, fmt.Errorf("%w: the zone does not exist", service.ErrPrecondition)
	case match.Revision != 0 && match.Revision != zone.Revision:
		return zone, exists, fmt.Errorf("%w: the zone has revision %d", service.ErrPrecondition, zone.Revision)
	}
	return zone, exists, nil
}

// writeZone writes a zone.
//
// overridden, narrowed_at and revision have the values that the triggers would write, which overrule them.
// But a new zone is always written as one that was narrowed now. The triggers do that if a former
// zone of the id has left txns: that would take a question to all shards, and it only makes
// checks count more carefully for the length of one window.
func writeZone(ctx context.Context, e *edit, zone service.Zone, exists bool) error {
	statement := `
INSERT INTO zone_master (overridden, narrowed_at, revision, ` + zonerow.Settings.List("") + `, id)
VALUES (EXISTS (SELECT 1 FROM zone_override WHERE zone_id = ?), UTC_TIMESTAMP(6), 1` +
		strings.Repeat(", ?", len(zonerow.Settings)+1) + `)`
	kept := []any{zone.ID}
	if exists {
		// Engines assign from left to right: narrowed_at sees the settings from before.
		statement = `
UPDATE zone_master
   SET narrowed_at = IF(whole_rule OR rate > ? OR ` + "`window`" + ` < ?
                        OR (period, period_offset, period_anchor) <> (?, ?, ?),
                        UTC_TIMESTAMP(6), narrowed_at),
       revision = revision + 1,
       ` + zonerow.Settings.List(" = ?") + `
 WHERE id = ?`
		zone = zone.WithDefaults()
		of := zone.Calendar
		kept = []any{zone.Rate, service.WholeSeconds(zone.Window), string(of.Period), of.Offset, of.Anchor}
	}
	_, err := e.ExecContext(ctx, statement, append(append(kept, zonerow.Settings.Write(zone)...), zone.ID)...)
	return err
}

// DeleteZone removes a zone and its overrides, if the condition of match holds; its
// txns stay. The error wraps service.ErrNotFound if there is none,
// service.ErrPrecondition if match fails, and service.ErrBusy if the engine is
// away.
func (s *Tables) DeleteZone(ctx context.Context, id int64, match service.Match, principal string) error {
	err := s.edit(ctx, principal, func(e *edit) error {
		_, exists, err := lockMatching(ctx, e, id, match)
		switch {
		case err == nil && !exists, errors.Is(err, service.ErrPrecondition) && !exists:
			return service.ErrNotFound
		case err != nil:
			return err
		}
		if _, err = e.remove(ctx, overrideRows("zone_id = ?", id)); err == nil {
			_, err = e.remove(ctx, zoneRows(id))
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("delete zone %d: %w", id, session.WriteError(err))
	}
	return nil
}
