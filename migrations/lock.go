package migrations

import (
	"context"
	"database/sql"
	"fmt"
)

// lockWait is how many seconds a migration waits for another one of the same database. A busy server makes all tables
// in less.
const lockWait = 60

// alone does one thing while no other migration of the database is under way. The end of conn ends its hold, too.
func alone(ctx context.Context, conn *sql.Conn, database string, do func() error) error {
	const longest = 64 // of the name of a lock, on MySQL
	name := "velocityd migrate " + database
	name = name[:min(len(name), longest)]
	var got sql.Null[int64]
	if err := conn.QueryRowContext(ctx, "SELECT GET_LOCK(?, ?)", name, lockWait).Scan(&got); err != nil {
		return fmt.Errorf("prepare migration: %w", err)
	}
	if got.V != 1 {
		return fmt.Errorf("prepare migration: another migration is still under way after %d seconds", lockWait)
	}
	defer func() { _, _ = conn.ExecContext(context.WithoutCancel(ctx), "SELECT RELEASE_LOCK(?)", name) }()
	return do()
}
