package records

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"velocityd/db/session"
	"velocityd/service"
	"velocityd/service/backtest"
)

// settingsRows is how many rows of zone_audit one statement reads.
const settingsRows = 5000

// SettingsSince returns all zones and overrides as they were at an instant, and their changes since, as far as zone_audit has
// them. If the account may not read zone_audit, it returns those of now. The error wraps service.ErrBusy if the engine is away,
// and does NOT hold a key.
func (s *Tables) SettingsSince(ctx context.Context, since time.Time) (backtest.Past, error) {
	zones, err := s.Zones(ctx)
	if err != nil {
		return backtest.Past{}, err
	}
	var overrides []service.Override
	for _, zone := range zones {
		of, err := service.AllOverrides(ctx, s, zone.ID)
		if err != nil && !errors.Is(err, service.ErrNotFound) {
			return backtest.Past{}, err
		}
		overrides = append(overrides, of...)
	}
	edits, err := s.editsSince(ctx, since)
	if session.IsOneOf(err, session.LackingRight()) {
		return backtest.Past{Zones: zones, Overrides: overrides, IsPresent: true}, nil
	}
	if err != nil {
		return backtest.Past{}, fmt.Errorf("read the changes of zones and overrides: %w", session.LookupError(err))
	}
	return backtest.NewPast(zones, overrides, edits), nil
}

// editsSince reads the edits of all zones since an instant, by id.
func (s *Tables) editsSince(ctx context.Context, since time.Time) (list []service.Edit, err error) {
	for after := uint64(0); ; {
		fits := func(row pastRow) bool { return row.ID > after && !row.At.Before(since) }
		rows, err := session.SelectFitting(ctx, s.pool, fits, selectPast+`
 WHERE id > ?
   AND changed_at >= ?
   AND subject IN ('zone', 'override', 'bucket')
 ORDER BY id
 LIMIT ?`, after, since, settingsRows)
		if err != nil {
			return nil, err
		}
		for _, row := range rows {
			edit, err := row.edit()
			if err != nil {
				return nil, err
			}
			list, after = append(list, edit), row.ID
		}
		if len(rows) < settingsRows {
			return list, nil
		}
	}
}

// pastRow is a row of zone_audit.
type pastRow struct {
	ID         uint64           `db:"id"`
	At         time.Time        `db:"changed_at"`
	Subject    string           `db:"subject"`
	Action     string           `db:"action"`
	ZoneID     int64            `db:"zone_id"`
	OverrideID sql.Null[uint64] `db:"override_id"`
	Before     []byte           `db:"state_before"`
	After      []byte           `db:"state_after"`
}

const selectPast = `
SELECT id, changed_at, subject, action, zone_id, override_id, state_before, state_after
  FROM zone_audit`

// edit returns the edit of a row. The error does NOT quote the row.
func (r pastRow) edit() (e service.Edit, err error) {
	e.At = r.At
	switch {
	case r.Subject == "zone":
		e.ZoneBefore, e.ZoneAfter, err = statesOf(r, ZoneBefore)
	case r.Subject == "override":
		e.OverrideBefore, e.OverrideAfter, err = statesOf(r, OverrideBefore)
	case r.Action == "release":
		e.Released, err = r.released()
	}
	return e, err
}

// statesOf reads the states before and after a change: nil where there is none.
func statesOf[T any](r pastRow, read func(service.Change) (T, error)) (before, after *T, err error) {
	for _, of := range []struct {
		state []byte
		into  **T
	}{{r.Before, &before}, {r.After, &after}} {
		if len(of.state) == 0 {
			continue
		}
		was, err := read(service.Change{ID: r.ID, ZoneID: r.ZoneID, OverrideID: r.OverrideID.V, Before: of.state})
		if err != nil {
			return nil, nil, err
		}
		*of.into = &was
	}
	return before, after, nil
}

// released returns the bucket of a release, or nil if its key is not there any more.
func (r pastRow) released() (*service.Bucket, error) {
	var state struct {
		Key string `json:"bucket_key"`
	}
	if err := json.Unmarshal(r.After, &state); err != nil {
		return nil, fmt.Errorf("release %d cannot be read", r.ID) // the text holds a key
	}
	if state.Key == "" {
		return nil, nil
	}
	return &service.Bucket{ZoneID: r.ZoneID, Key: state.Key}, nil
}
