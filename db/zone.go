package db

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"velocityd/service"
)

// zoneRow is a row of zone_master.
type zoneRow struct {
	ID          int64  `db:"id"`
	Description string `db:"description"`
	Rate        int    `db:"rate"`
	Window      int64  `db:"window"`
}

func (r zoneRow) zone() service.Zone {
	return service.Zone{
		ID: r.ID, Description: r.Description, Rate: r.Rate, Window: time.Duration(r.Window) * time.Second,
	}
}

// Zones returns all zones by id. The error wraps service.ErrBusy if the engine
// is away.
func (p *Pool) Zones(ctx context.Context) ([]service.Zone, error) {
	var rows []zoneRow
	if err := p.db.SelectContext(ctx, &rows, `
SELECT id, description, rate, `+"`window`"+`
  FROM zone_master
 ORDER BY id`); err != nil {
		return nil, fmt.Errorf("list zones: %w", lookupError(err))
	}
	zones := make([]service.Zone, len(rows))
	for i, row := range rows {
		zones[i] = row.zone()
	}
	return zones, nil
}

// Zone returns one zone. The error wraps service.ErrNotFound if there is none,
// and service.ErrBusy if the engine is away.
func (p *Pool) Zone(ctx context.Context, id int64) (service.Zone, error) {
	var row zoneRow
	err := p.db.GetContext(ctx, &row, `
SELECT id, description, rate, `+"`window`"+`
  FROM zone_master
 WHERE id = ?`, id)
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return service.Zone{}, fmt.Errorf("zone %d: %w", id, service.ErrNotFound)
	case err != nil:
		return service.Zone{}, fmt.Errorf("read zone %d: %w", id, lookupError(err))
	}
	return row.zone(), nil
}

// SetZone creates or changes a zone; it takes effect at the next check. The
// error wraps service.ErrInvalid if the zone breaks a rule, and service.ErrBusy
// if the engine is away: setting it again is harmless.
func (p *Pool) SetZone(ctx context.Context, zone service.Zone) error {
	if err := zone.Validate(); err != nil {
		return err
	}
	_, err := p.db.ExecContext(ctx, `
INSERT INTO zone_master (id, description, rate, `+"`window`"+`)
VALUES (?, ?, ?, ?)
ON DUPLICATE KEY UPDATE
       description = VALUES(description),
       rate = VALUES(rate),
       `+"`window` = VALUES(`window`)",
		zone.ID, zone.Description, zone.Rate, int64(zone.Window/time.Second))
	if err != nil {
		return fmt.Errorf("set zone %d: %w", zone.ID, lookupError(err))
	}
	return nil
}
