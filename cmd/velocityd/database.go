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
	// reconnectPause is how long a service waits for a database that is away.
	reconnectPause = time.Second
)

// errSchema says that a database must be migrated before it can be used.
var errSchema = errors.New("schema does not fit")

// openDatabase connects and makes sure of the schema. The error wraps
// service.ErrBusy if the database is away; every other one is a fault of the
// configuration, which waiting does not mend.
func openDatabase(ctx context.Context, o db.Options) (*db.Store, error) {
	store, err := db.Open(o)
	if err != nil {
		return nil, err
	}
	if err := verifySchema(ctx, store); err != nil {
		_ = store.Close() // the first error says more
		return nil, fmt.Errorf("database %s: %w", db.RedactDSN(o.DSN), err)
	}
	return store, nil
}

// verifySchema returns an errSchema that says what to do unless the schema is
// the one this program needs, or newer: migrations come before the programs that
// need them, so each must leave the program before it working. A dirty version
// above ours is such a migration on its way.
func verifySchema(ctx context.Context, store *db.Store) error {
	have, dirty, err := store.SchemaVersion(ctx)
	need := migrations.Latest()
	switch {
	case err != nil:
		return err
	case have == 0 && !dirty:
		return fmt.Errorf("%w: the database has none; run 'velocityd migrate up'", errSchema)
	case dirty && have <= need:
		return fmt.Errorf("%w: migration %d stopped half-way; run 'velocityd migrate status'", errSchema, have)
	case have < need:
		return fmt.Errorf("%w: it is at version %d and must be at %d; run 'velocityd migrate up'", errSchema, have, need)
	}
	return nil
}

// unready is a reason for not being ready. Its text is for callers, its cause
// for the log.
type unready struct {
	text  string
	cause error
}

func (u unready) Error() string { return u.text }
func (u unready) Unwrap() error { return u.cause }

// unreadiness says what verifySchema found in words that are fit for any caller,
// around the error that is not.
func unreadiness(err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, errSchema):
		return unready{"the database's schema is not the one that is needed", err}
	}
	return unready{"the database cannot be reached", err}
}
