package records

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/netip"
	"strconv"
	"time"

	"velocityd/db/session"
	"velocityd/service"
)

// overrideRow is a row of zone_override.
type overrideRow struct {
	ID        uint64              `db:"id"`
	ZoneID    int64               `db:"zone_id"`
	Key       sql.Null[string]    `db:"bucket_key"`
	Prefix    sql.Null[string]    `db:"prefix"`
	Action    string              `db:"action"`
	Rate      sql.Null[int]       `db:"rate"`
	Window    sql.Null[int64]     `db:"window"`
	Anchor    sql.Null[int]       `db:"period_anchor"`
	ExpiresAt sql.Null[time.Time] `db:"expires_at"`
	Reason    string              `db:"reason"`
	CreatedBy string              `db:"created_by"`
}

const selectOverride = `
SELECT id, zone_id, bucket_key, prefix, action, rate, ` + "`window`" + `, period_anchor, expires_at, reason, created_by
  FROM zone_override`

func (r overrideRow) override() (o service.Override, err error) {
	o = service.Override{
		ID: r.ID, ZoneID: r.ZoneID, Key: r.Key.V, Action: service.OverrideAction(r.Action),
		Rate: r.Rate.V, Window: service.Lasting(service.Seconds(r.Window.V)), PeriodAnchor: r.Anchor.V,
		ExpiresAt: service.At(r.ExpiresAt.V), Reason: r.Reason, CreatedBy: r.CreatedBy,
	}
	if !r.Prefix.Valid {
		return o, nil
	}
	if o.Prefix, err = netip.ParsePrefix(r.Prefix.V); err != nil {
		return o, fmt.Errorf("override %d: %w", r.ID, err)
	}
	return o, nil
}

// overrideValues returns the values of an override's columns, in the order of the statements
// that write them.
func overrideValues(o service.Override) []any {
	limits := o.Action == service.OverrideLimit
	return []any{
		orNull(o.Key),
		sql.Null[string]{V: o.Prefix.String(), Valid: o.Prefix.IsValid()},
		sql.Null[string]{V: Network(o.Prefix), Valid: o.Prefix.IsValid()},
		string(o.Action),
		sql.Null[int]{V: o.Rate, Valid: limits},
		sql.Null[int64]{V: service.WholeSeconds(o.Window.Duration), Valid: o.Window.Duration != 0},
		sql.Null[int]{V: o.PeriodAnchor, Valid: o.PeriodAnchor != 0},
		sql.Null[time.Time]{V: o.ExpiresAt.UTC(), Valid: !o.ExpiresAt.IsZero()},
		o.Reason,
		o.CreatedBy,
	}
}

// Overrides returns at most limit overrides of a zone with ids above after, by
// id. The error wraps service.ErrNotFound for an unknown zone.
func (s *Tables) Overrides(ctx context.Context, zoneID int64, after uint64, limit int) ([]service.Override, error) {
	if _, err := s.Zone(ctx, zoneID); err != nil {
		return nil, err
	}
	overrides, err := readOverrides(ctx, s.pool, `
 WHERE zone_id = ?
   AND id > ?
 ORDER BY id
 LIMIT ?`, zoneID, after, limit)
	if err != nil {
		return nil, fmt.Errorf("list overrides of zone %d: %w", zoneID, session.LookupError(err))
	}
	return overrides, nil
}

// readOverrides returns the overrides that a SELECT finds with these clauses.
func readOverrides(ctx context.Context, from session.Reader, clauses string, args ...any) ([]service.Override, error) {
	var rows []overrideRow
	err := from.SelectContext(ctx, &rows, selectOverride+clauses, args...)
	overrides := make([]service.Override, len(rows))
	for i, row := range rows {
		if overrides[i], err = row.override(); err != nil {
			return nil, err
		}
	}
	return overrides, err
}

// Override returns one override of a zone, expired or not. The error wraps
// service.ErrNotFound if there is none.
func (s *Tables) Override(ctx context.Context, zoneID int64, id uint64) (service.Override, error) {
	o, err := readOverride(ctx, s.pool, zoneID, id)
	if err != nil {
		return o, fmt.Errorf("read override %d of zone %d: %w", id, zoneID, session.LookupError(err))
	}
	return o, nil
}

func readOverride(ctx context.Context, from session.Reader, zoneID int64, id uint64) (service.Override, error) {
	return oneOverride(ctx, from, `
 WHERE zone_id = ?
   AND id = ?`, zoneID, id)
}

// oneOverride is readOverrides for the first of them. Without one the error is service.ErrNotFound.
func oneOverride(ctx context.Context, from session.Reader, clauses string, args ...any) (service.Override, error) {
	list, err := readOverrides(ctx, from, clauses, args...)
	if err == nil && len(list) == 0 {
		err = service.ErrNotFound
	}
	if err != nil {
		return service.Override{}, err
	}
	return list[0], nil
}

// writeOverride validates an override and runs change, which writes it with its zone locked, and returns the override
// of the id that change returns, as stored. action names the change in its error.
//
// The lock of the zone's row is the first step of every edit of overrides. The foreign key and the triggers lock that
// row too; without this step two edits could lock rows in different orders and deadlock.
func (s *Tables) writeOverride(
	ctx context.Context, action string, o service.Override, principal string,
	change func(*edit, service.Zone) (id uint64, err error),
) (stored service.Override, err error) {
	if err := o.Validate(); err != nil {
		return service.Override{}, err
	}
	err = s.edit(ctx, principal, func(e *edit) error {
		zone, err := lockZone(ctx, e, o.ZoneID)
		if err != nil {
			return err
		}
		id, err := change(e, zone)
		if err != nil {
			return err
		}
		stored, err = readOverride(ctx, e, o.ZoneID, id)
		return err
	})
	if err != nil {
		return service.Override{}, fmt.Errorf("%s of zone %d: %w", action, o.ZoneID, session.WriteError(err))
	}
	return stored, nil
}

// AddOverride creates an override and returns it as stored; CreatedBy is
// principal if empty. It takes effect at the next check. The error wraps
// service.ErrInvalid if it breaks a rule, service.ErrNotFound if there is no such
// zone, and service.ErrConflict if the same key or prefix has one that has not
// expired.
func (s *Tables) AddOverride(ctx context.Context, o service.Override, principal string) (service.Override, error) {
	return s.writeOverride(ctx, "add override", o, principal, func(e *edit, zone service.Zone) (id uint64, err error) {
		if o, err = zone.Keys.Fit(o); err != nil {
			return 0, err
		}
		return addOverride(ctx, e, o, principal)
	})
}

// ExtendOverride creates an override as AddOverride does, or changes the one of the same key or prefix that is in force
// if service.Override.Extends says so, and returns the one that is in force then. o.ID may name one whose place it
// takes besides.
func (s *Tables) ExtendOverride(ctx context.Context, o service.Override, principal string) (service.Override, error) {
	return s.writeOverride(ctx, "extend override", o, principal, func(e *edit, zone service.Zone) (id uint64, err error) {
		if o, err = zone.Keys.Fit(o); err != nil {
			return 0, err
		}
		before, err := lockInForce(ctx, e, o)
		if errors.Is(err, service.ErrNotFound) {
			return addOverride(ctx, e, o, principal)
		}
		if err != nil {
			return 0, err
		}
		if extends, err := o.Extends(before); err != nil || !extends {
			return before.ID, err
		}
		o.ID, o.CreatedBy = before.ID, cmp.Or(o.CreatedBy, principal, e.account)
		return o.ID, updateOverride(ctx, e, o)
	})
}

// lockInForce locks and returns the override of the same target or id as o that has not expired. Without one the error
// is service.ErrNotFound.
func lockInForce(ctx context.Context, e *edit, o service.Override) (service.Override, error) {
	where, args := sameTarget(o)
	return oneOverride(ctx, e, `
 WHERE zone_id = ?
   AND (`+where+` OR id = ?)
   AND (expires_at IS NULL OR expires_at > UTC_TIMESTAMP(6))
 ORDER BY id
 LIMIT 1
   FOR UPDATE`, append(append([]any{o.ZoneID}, args...), o.ID)...)
}

// addOverride inserts an override in place of an expired one, and returns its id.
func addOverride(ctx context.Context, e *edit, o service.Override, principal string) (id uint64, err error) {
	o.ID, o.CreatedBy = 0, cmp.Or(o.CreatedBy, principal, e.account)
	if err := dropExpired(ctx, e, o); err != nil {
		return 0, err
	}
	return insertOverride(ctx, e, o)
}

func lockZone(ctx context.Context, e *edit, id int64) (service.Zone, error) {
	zone, exists, err := lockMatching(ctx, e, id, service.Match{})
	if err == nil && !exists {
		err = fmt.Errorf("zone %d: %w", id, service.ErrNotFound)
	}
	return zone, err
}

// sameTarget returns the condition of the one override that a zone can have of the target of o.
func sameTarget(o service.Override) (where string, args []any) {
	if o.Prefix.IsValid() {
		return "zone_id = ? AND network = ?", []any{o.ZoneID, Network(o.Prefix)}
	}
	return "zone_id = ? AND bucket_key = ?", []any{o.ZoneID, o.Key}
}

// dropExpired deletes an expired override of the same key or network as o, which would
// otherwise be in the way of o.
func dropExpired(ctx context.Context, e *edit, o service.Override) error {
	where, args := sameTarget(o)
	var id uint64
	err := e.GetContext(ctx, &id, `
SELECT id
  FROM zone_override
 WHERE `+where+`
   AND id <> ?
   AND expires_at <= UTC_TIMESTAMP(6)
   FOR UPDATE`, append(args, o.ID)...)
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return nil
	case err != nil:
		return err
	}
	_, err = e.remove(ctx, overrideRows("id = ?", id))
	return err
}

// insertOverride inserts an override whose target fits its zone, and returns its id. created_by
// is cut to the length of its column, as a principal is in zone_audit.
func insertOverride(ctx context.Context, e *edit, o service.Override) (id uint64, err error) {
	where, args := sameTarget(o)
	err = e.audited(ctx, auditInsert, overrideRows(where, args...), func() error {
		result, err := e.ExecContext(ctx, `
INSERT INTO zone_override (bucket_key, prefix, network, action, rate, `+"`window`"+`, period_anchor, expires_at, reason,
  created_by, created_at, zone_id)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, LEFT(?, 128), UTC_TIMESTAMP(6), ?)`, append(overrideValues(o), o.ZoneID)...)
		if err != nil {
			return err
		}
		last, err := result.LastInsertId()
		id = uint64(last)
		return err
	})
	if err != nil {
		return 0, err
	}
	return id, e.noteOverride(ctx, o)
}

// Network returns the value of zone_override.network for a masked prefix: its family and
// leading bits, such as 4:11001011 for 203.0.0.0/8. It is empty for the zero Prefix. The procedure
// derive_network makes the same.
func Network(prefix netip.Prefix) string {
	if !prefix.IsValid() {
		return ""
	}
	bits := ""
	for _, octet := range prefix.Addr().AsSlice() {
		bits += fmt.Sprintf("%08b", octet)
	}
	return strconv.Itoa(FamilyOf(prefix)) + ":" + bits[:prefix.Bits()]
}

// FamilyOf returns 4 for IPv4 and 6 for IPv6.
func FamilyOf(prefix netip.Prefix) int {
	if prefix.Addr().Is4() {
		return 4
	}
	return 6
}

// SetOverride replaces all of the override with o.ID and returns it as stored.
// The errors are those of AddOverride; service.ErrNotFound if the zone has no
// such override.
func (s *Tables) SetOverride(ctx context.Context, o service.Override, principal string) (service.Override, error) {
	action := fmt.Sprintf("set override %d", o.ID)
	return s.writeOverride(ctx, action, o, principal, func(e *edit, zone service.Zone) (uint64, error) {
		before, err := readOverride(ctx, e, o.ZoneID, o.ID)
		if err != nil {
			return 0, err
		}
		// A target that fitted the zone once may stay when the zone has changed.
		if o.Key != before.Key || o.Prefix != before.Prefix {
			if o, err = zone.Keys.Fit(o); err != nil {
				return 0, err
			}
		}
		o.CreatedBy = cmp.Or(o.CreatedBy, before.CreatedBy)
		if err := dropExpired(ctx, e, o); err != nil {
			return 0, err
		}
		return o.ID, updateOverride(ctx, e, o)
	})
}

func updateOverride(ctx context.Context, e *edit, o service.Override) error {
	if err := e.audited(ctx, auditUpdate, overrideRows("id = ?", o.ID), func() error {
		_, err := e.ExecContext(ctx, `
UPDATE zone_override
   SET bucket_key = ?, prefix = ?, network = ?, action = ?, rate = ?, `+"`window`"+` = ?, period_anchor = ?,
       expires_at = ?, reason = ?, created_by = ?
 WHERE id = ?`, append(overrideValues(o), o.ID)...)
		return err
	}); err != nil {
		return err
	}
	return e.noteOverride(ctx, o)
}

// EndOverride removes an override as DeleteOverride does, if the context states the reason for which it was made:
// see service.Override.MayEnd.
func (s *Tables) EndOverride(ctx context.Context, zoneID int64, id uint64, principal string) error {
	return s.dropOverride(ctx, zoneID, id, principal,
		func(o service.Override) error { return o.MayEnd(service.StatedReason(ctx)) })
}

// DeleteOverride removes an override. The error wraps service.ErrNotFound if the
// zone has no such override.
func (s *Tables) DeleteOverride(ctx context.Context, zoneID int64, id uint64, principal string) error {
	return s.dropOverride(ctx, zoneID, id, principal, func(service.Override) error { return nil })
}

// dropOverride removes an override, unless may returns an error about it.
func (s *Tables) dropOverride(
	ctx context.Context, zoneID int64, id uint64, principal string, may func(service.Override) error,
) error {
	err := s.edit(ctx, principal, func(e *edit) error {
		if _, err := lockZone(ctx, e, zoneID); err != nil {
			return err
		}
		o, err := readOverride(ctx, e, zoneID, id)
		if err == nil {
			err = may(o)
		}
		if err != nil {
			return err
		}
		n, err := e.remove(ctx, overrideRows("zone_id = ? AND id = ?", zoneID, id))
		if err == nil && n == 0 {
			err = service.ErrNotFound
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("delete override %d of zone %d: %w", id, zoneID, session.WriteError(err))
	}
	return nil
}
