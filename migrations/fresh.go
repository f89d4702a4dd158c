package migrations

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
)

// Fresh brings an empty database to Latest, as Up does but in a fraction of the
// time: it keeps no account between two migrations, and what fails half-way can
// only be thrown away. It is for databases that live for one test.
func Fresh(ctx context.Context, dsn string) (err error) {
	db, _, err := open(dsn)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	conn, err := db.Conn(ctx)
	if err != nil {
		return fmt.Errorf("connect for migration: %w", err)
	}
	defer conn.Close()
	statements, err := waysUp()
	if err != nil {
		return err
	}
	// The table as golang-migrate makes it; a test holds one against the other.
	statements = append(statements,
		"CREATE TABLE schema_migrations (version BIGINT NOT NULL PRIMARY KEY, dirty BOOLEAN NOT NULL)",
		fmt.Sprintf("INSERT INTO schema_migrations (version, dirty) VALUES (%d, FALSE)", Latest()))
	for i, statement := range statements {
		if _, err := conn.ExecContext(ctx, statement); err != nil {
			return fmt.Errorf("go to version %d: %w", i+1, err)
		}
	}
	return nil
}

// waysUp returns the texts of all migrations, by number.
func waysUp() ([]string, error) {
	names, err := fs.Glob(texts, "*.up.sql")
	if err != nil {
		return nil, fmt.Errorf("list migrations: %w", err)
	}
	list := make([]string, len(names))
	for i, name := range names {
		text, err := fs.ReadFile(texts, name)
		if err != nil {
			return nil, fmt.Errorf("read migration: %w", err)
		}
		list[i] = string(text)
	}
	return list, nil
}
