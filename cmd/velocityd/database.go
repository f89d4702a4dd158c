package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"velocityd/db"
	"velocityd/migrations"
)

const (
	// connectTimeout bounds one try to reach a database and look at its schema.
	connectTimeout = 5 * time.Second
	// reconnectPause is the time between two tries to reach a database that is away.
	reconnectPause = time.Second
)

// errSchema says that a database must be migrated before it can be used.
var errSchema = errors.New("schema does not fit")

// openDatabase connects to a database and verifies its schema. The error wraps
// service.ErrBusy if the database is away. Every other error is a fault of the
// configuration, which waiting does not mend.
func openDatabase(ctx context.Context, o db.Options) (*db.Store, error) {
	store, err := db.Open(o)
	if err != nil {
		return nil, err
	}
	if _, err := verifySchema(ctx, store); err != nil {
		_ = store.Close() // the first error says more
		return nil, fmt.Errorf("database %s: %w", db.RedactDSN(o.DSN), err)
	}
	return store, nil
}

// versioned is a database that knows the version of its schema.
type versioned interface {
	SchemaVersion(ctx context.Context) (version uint, dirty bool, err error)
}

// verifySchema returns an error that wraps errSchema and says what to do, unless the
// schema has the version that this program needs, or a newer one. A newer one is
// right: every migration leaves the program before it working. A dirty version above
// this program's is a newer migration that is still running.
func verifySchema(ctx context.Context, database versioned) (version uint, err error) {
	have, dirty, err := database.SchemaVersion(ctx)
	need := migrations.Latest()
	switch {
	case err != nil:
	case have == 0 && !dirty:
		err = fmt.Errorf("%w: the database has no schema; run 'velocityd migrate up'", errSchema)
	case migrations.RefuseUnreleased(have) != nil:
		err = fmt.Errorf("%w: %w", errSchema, migrations.RefuseUnreleased(have))
	case dirty && have <= need:
		err = fmt.Errorf("%w: migration %d stopped half-way; run 'velocityd migrate status'", errSchema, have)
	case have < need:
		err = fmt.Errorf("%w: it is at version %d and must be at %d; run 'velocityd migrate up'", errSchema, have, need)
	}
	return have, err
}
