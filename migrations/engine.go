package migrations

import (
	"context"
	"fmt"
	"strings"
)

// Engine is what a database is, and so the form of its schema.
type Engine string

// The engines. Auto stands for whichever the database says that it is.
const (
	Auto   Engine = "auto"
	MySQL  Engine = "mysql"  // MySQL or MariaDB: numbered steps, procedures, triggers and views
	Vitess Engine = "vitess" // vtgate: the portable tables, in two keyspaces
	TiDB   Engine = "tidb"   // the portable tables, in one database
)

// Up brings the schema of a database to Latest, in the form of its engine. On MySQL it is the
// function Up. Elsewhere it makes what is missing and notes the version last, so that it can be
// carried out again after a failure; it changes no table that is there, but those of a
// database that was migrated as MySQL: see portable.adopt. An engine that is not Auto is
// believed: TiDB makes the portable tables on MySQL, too.
func (e Engine) Up(ctx context.Context, dsn string) (Change, error) {
	e, err := e.of(ctx, dsn)
	switch {
	case err != nil:
		return Change{}, err
	case e == MySQL:
		return Up(ctx, dsn)
	}
	return e.upPortable(ctx, dsn)
}

// of returns the engine itself or, for Auto, the one that the database says that it is.
func (e Engine) of(ctx context.Context, dsn string) (Engine, error) {
	if e != Auto && e != "" {
		return e, nil
	}
	db, _, err := openWith(dsn, nil)
	if err != nil {
		return "", err
	}
	defer db.Close()
	var version, comment string
	if err := db.QueryRowContext(ctx, "SELECT VERSION(), @@version_comment").Scan(&version, &comment); err != nil {
		return "", fmt.Errorf("look for the engine: %w", err)
	}
	return engineOf(version, comment), nil
}

// engineOf is the rule of package db, which this package must not know.
func engineOf(version, comment string) Engine {
	switch {
	case strings.Contains(version, "TiDB"):
		return TiDB
	case strings.Contains(version, "Vitess"), strings.Contains(strings.ToLower(comment), "vitess"):
		return Vitess
	}
	return MySQL
}
