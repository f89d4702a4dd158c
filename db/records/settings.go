package records

import (
	"context"
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
	audited, err := s.auditedSince(ctx, since)
	if session.IsOneOf(err, session.LackingRight()) {
		return backtest.Past{Zones: zones, Overrides: overrides, IsPresent: true}, nil
	}
	if err != nil {
		return backtest.Past{}, fmt.Errorf("read the changes of zones and overrides: %w", session.LookupError(err))
	}
	return backtest.NewPast(zones, overrides, audited), nil
}

// auditedSince reads the changes of all zones since an instant, by id.
func (s *Tables) auditedSince(ctx context.Context, since time.Time) (list []backtest.Audited, err error) {
	for after := uint64(0); ; {
		var rows []pastRow
		err := s.pool.SelectContext(ctx, &rows, `
SELECT id, changed_at, subject, action, zone_id, override_id, state_before, state_after
  FROM zone_audit
 WHERE id > ?
   AND changed_at >= ?
   AND subject IN ('zone', 'override', 'bucket')
 ORDER BY id
 LIMIT ?`, after, since, settingsRows)
		if err != nil {
			return nil, err
		}
		for _, row := range rows {
			one, err := row.audited()
			if err != nil {
				return nil, err
			}
			list, after = append(list, one), row.ID
		}
		if len(rows) < settingsRows {
			return list, nil
		}
	}
}

// audited returns the change of a row. The error does NOT quote the row.
func (r pastRow) audited() (a backtest.Audited, err error) {
	a.At = r.At
	switch {
	case r.Subject == "zone":
		a.ZoneBefore, err = stateOf(r, r.Before, ZoneBefore)
		if err == nil {
			a.ZoneAfter, err = stateOf(r, r.After, ZoneBefore)
		}
	case r.Subject == "override":
		a.OverrideBefore, err = stateOf(r, r.Before, OverrideBefore)
		if err == nil {
			a.OverrideAfter, err = stateOf(r, r.After, OverrideBefore)
		}
	case r.Action == "release":
		a.Released, err = r.released()
	}
	return a, err
}

// stateOf reads a state before or after a change, or returns nil if there is none.
func stateOf[T any](r pastRow, state []byte, read func(service.Change) (T, error)) (*T, error) {
	if len(state) == 0 {
		return nil, nil
	}
	was, err := read(service.Change{ID: r.ID, ZoneID: r.ZoneID, OverrideID: r.OverrideID.V, Before: state})
	return &was, err
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
