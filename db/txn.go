package db

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"velocityd/service"
)

// Txn returns one recorded attempt. The error wraps service.ErrNotFound if
// there is none, and service.ErrBusy if the engine is away.
func (p *Pool) Txn(ctx context.Context, id uint64) (service.Txn, error) {
	var row struct {
		ID        uint64    `db:"id"`
		CreatedAt time.Time `db:"created_at"`
		ZoneID    int64     `db:"zone_id"`
		Key       string    `db:"bucket_key"`
		Blocked   bool      `db:"blocked"`
		Exceeded  bool      `db:"exceeded"`
		Counted   bool      `db:"counted"`
	}
	err := p.db.GetContext(ctx, &row, `
SELECT id, created_at, zone_id, bucket_key, blocked, exceeded, counted
  FROM zone_txn
 WHERE id = ?`, id)
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return service.Txn{}, fmt.Errorf("txn %d: %w", id, service.ErrNotFound)
	case err != nil:
		return service.Txn{}, fmt.Errorf("read txn %d: %w", id, lookupError(err))
	}
	return service.Txn{
		ID: row.ID, Bucket: service.Bucket{ZoneID: row.ZoneID, Key: row.Key}, CreatedAt: row.CreatedAt,
		Blocked: row.Blocked, Exceeded: row.Exceeded, Counted: row.Counted,
	}, nil
}
