package db

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"strconv"

	"github.com/jmoiron/sqlx"

	"velocityd/db/session"
	"velocityd/service"
)

// zoneRow is a row of zone_master.
type zoneRow struct {
	ID             int64   `db:"id"`
	Description    string  `db:"description"`
	Rate           int     `db:"rate"`
	Window         int64   `db:"window"`
	Mode           string  `db:"mode"`
	Counts         string  `db:"counts"`
	ReserveTTL     int64   `db:"reserve_ttl"`
	ResetOnSuccess bool    `db:"reset_on_success"`
	Lockout        int64   `db:"lockout"`
	LockoutFactor  float64 `db:"lockout_factor"`
	LockoutMax     int64   `db:"lockout_max"`
	LockoutDecay   int64   `db:"lockout_decay"`
	KeyKind        string  `db:"key_kind"`
	KeyForm        string  `db:"key_form"`
	IPv4Prefix     int     `db:"ipv4_prefix"`
	IPv6Prefix     int     `db:"ipv6_prefix"`
	OnFailure      string  `db:"on_failure"`
	RecordBlocked  int     `db:"record_blocked"`
	Revision       uint64  `db:"revision"`
}

const selectZone = `
SELECT id, description, rate, ` + "`window`" + `, mode, counts, COALESCE(reserve_ttl, ` + "`window`" + `) AS reserve_ttl,
       reset_on_success, lockout, lockout_factor, lockout_max, lockout_decay, key_kind, key_form, ipv4_prefix, ipv6_prefix,
       on_failure, record_blocked, revision
  FROM zone_master`

func (r zoneRow) zone() service.Zone {
	return service.Zone{
		ID: r.ID, Description: r.Description, Rate: r.Rate, Window: service.Seconds(r.Window),
		Mode: service.Mode(r.Mode), Counts: service.Counts(r.Counts),
		ReserveTTL: service.Seconds(r.ReserveTTL), ResetOnSuccess: r.ResetOnSuccess,
		Lockout: service.Seconds(r.Lockout), LockoutFactor: r.LockoutFactor,
		LockoutMax: service.Seconds(r.LockoutMax), LockoutDecay: service.Seconds(r.LockoutDecay),
		Keys: service.KeyRule{
			Kind: service.KeyKind(r.KeyKind), Form: service.KeyForm(r.KeyForm),
			IPv4Prefix: r.IPv4Prefix, IPv6Prefix: r.IPv6Prefix,
		},
		OnFailure: service.OnFailure(r.OnFailure), RecordBlocked: r.RecordBlocked, Revision: r.Revision,
	}
}

// limitColumns are the columns of zone_master that a decision needs, in the order in which
// limitOf reads them.
const limitColumns = "id, rate, `window`, mode, counts, lockout, lockout_factor, lockout_max, lockout_decay, " +
	"key_kind, key_form, ipv4_prefix, ipv6_prefix, record_blocked"

const limits = 14 // columns

// limitOf returns the zone whose limitColumns begin row, and the rest of the row.
func limitOf(row []driver.Value) (zone service.Zone, rest []driver.Value, err error) {
	factor, err := strconv.ParseFloat(session.Text(row[6]), 64)
	if err != nil {
		return zone, nil, session.ErrMisfit
	}
	return service.Zone{
		ID: session.AsInt(row[0]), Rate: int(session.AsInt(row[1])), Window: service.Seconds(session.AsInt(row[2])),
		Mode: service.Mode(session.Text(row[3])), Counts: service.Counts(session.Text(row[4])),
		Lockout: service.Seconds(session.AsInt(row[5])), LockoutFactor: factor,
		LockoutMax: service.Seconds(session.AsInt(row[7])), LockoutDecay: service.Seconds(session.AsInt(row[8])),
		Keys: service.KeyRule{
			Kind: service.KeyKind(session.Text(row[9])), Form: service.KeyForm(session.Text(row[10])),
			IPv4Prefix: int(session.AsInt(row[11])), IPv6Prefix: int(session.AsInt(row[12])),
		},
		RecordBlocked: int(session.AsInt(row[13])),
	}, row[limits:], nil
}

// Zones returns all zones by id, with every setting spelt out. The error wraps
// service.ErrBusy if the engine is away.
func (s *Store) Zones(ctx context.Context) ([]service.Zone, error) {
	var rows []zoneRow
	if err := s.pool.SelectContext(ctx, &rows, selectZone+`
 ORDER BY id`); err != nil {
		return nil, fmt.Errorf("list zones: %w", session.LookupError(err))
	}
	zones := make([]service.Zone, len(rows))
	for i, row := range rows {
		zones[i] = row.zone()
	}
	return zones, nil
}

// Zone returns one zone, with every setting spelt out. The error wraps
// service.ErrNotFound if there is none, and service.ErrBusy if the engine is
// away.
func (s *Store) Zone(ctx context.Context, id int64) (service.Zone, error) {
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

func readZone(ctx context.Context, from session.Reader, id int64, lock string) (service.Zone, error) {
	var row zoneRow
	err := from.GetContext(ctx, &row, selectZone+`
 WHERE id = ?`+lock, id)
	if errors.Is(err, sql.ErrNoRows) {
		return service.Zone{}, service.ErrNotFound
	}
	if err == nil && row.ID != id {
		err = session.ErrMisfit
	}
	return row.zone(), err
}

// PutZone creates a zone or replaces all of it, if the condition of match holds, and
// returns it as it is now: a new zone has revision 1. It takes effect at
// the next check. principal goes to zone_audit. The error wraps
// service.ErrInvalid if the zone breaks a rule, service.ErrPrecondition if match
// fails, and service.ErrBusy if the engine is away.
func (s *Store) PutZone(
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
			return writeZone(ctx, e, zone.WithDefaults(), exists)
		}); err != nil {
			return err
		}
		stored, err = readZone(ctx, e, zone.ID, "")
		return err
	}
	err := s.edit(ctx, principal, put)
	if session.IsOneOf(err, []uint16{session.NumberDuplicate, session.NumberSnapshot}) {
		err = s.edit(ctx, principal, put) // somebody created it at the same time, so its row is locked first now
	}
	if err != nil {
		return service.Zone{}, fmt.Errorf("put zone %d: %w", zone.ID, session.WriteError(err))
	}
	return stored, nil
}

// lockMatching locks the zone's row, and returns the zone and whether there is one. The error
// wraps service.ErrPrecondition if the condition of match does not hold.
func lockMatching(ctx context.Context, e *edit, id int64, match service.Match) (zone service.Zone, exists bool, err error) {
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

// writeZone writes a zone, whose defaults must be spelt out. A reserve_ttl that equals the
// window is written as NULL, so that it follows the window when a DBA changes the window.
//
// overridden, narrowed_at and revision are what the triggers would write, which overrule them.
// But a new zone is always written as one that was narrowed now. The triggers do that if a former
// zone of the id has left txns: that would take a question to all shards, and it only makes
// checks count more carefully for the length of one window.
func writeZone(ctx context.Context, e *edit, zone service.Zone, exists bool) error {
	statement := `
INSERT INTO zone_master (overridden, narrowed_at, revision,
       description, rate, ` + "`window`" + `, mode, counts, reserve_ttl, reset_on_success,
       lockout, lockout_factor, lockout_max, lockout_decay, key_kind, key_form, ipv4_prefix, ipv6_prefix, on_failure, record_blocked, id)
VALUES (EXISTS (SELECT 1 FROM zone_override WHERE zone_id = ?), UTC_TIMESTAMP(6), 1,
       ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`
	kept := []any{zone.ID}
	if exists {
		// Engines assign from left to right: narrowed_at sees the rate and window from before.
		statement = `
UPDATE zone_master
   SET narrowed_at = IF(rate > ? OR ` + "`window`" + ` < ?, UTC_TIMESTAMP(6), narrowed_at), revision = revision + 1,
       description = ?, rate = ?, ` + "`window`" + ` = ?, mode = ?, counts = ?, reserve_ttl = ?, reset_on_success = ?,
       lockout = ?, lockout_factor = ?, lockout_max = ?, lockout_decay = ?,
       key_kind = ?, key_form = ?, ipv4_prefix = ?, ipv6_prefix = ?, on_failure = ?, record_blocked = ?
 WHERE id = ?`
		kept = []any{zone.Rate, service.WholeSeconds(zone.Window)}
	}
	reserve := sql.Null[int64]{V: service.WholeSeconds(zone.ReserveTTL), Valid: zone.ReserveTTL != zone.Window}
	_, err := e.ExecContext(ctx, statement, append(kept, zone.Description, zone.Rate, service.WholeSeconds(zone.Window),
		string(zone.Mode), string(zone.Counts), reserve, zone.ResetOnSuccess, service.WholeSeconds(zone.Lockout),
		strconv.FormatFloat(zone.LockoutFactor, 'f', 2, 64), service.WholeSeconds(zone.LockoutMax), service.WholeSeconds(zone.LockoutDecay),
		string(zone.Keys.Kind), string(zone.Keys.Form), zone.Keys.IPv4Prefix, zone.Keys.IPv6Prefix, string(zone.OnFailure),
		zone.RecordBlocked, zone.ID)...)
	return err
}

// DeleteZone removes a zone and its overrides, if the condition of match holds; its
// txns stay. The error wraps service.ErrNotFound if there is none,
// service.ErrPrecondition if match fails, and service.ErrBusy if the engine is
// away.
func (s *Store) DeleteZone(ctx context.Context, id int64, match service.Match, principal string) error {
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
