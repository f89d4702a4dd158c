package doctor

import (
	"context"
	"errors"
	"fmt"

	"velocityd/db"
	"velocityd/db/session"
	"velocityd/migrations"
	"velocityd/service"
)

// ErrSchema says that a database must be migrated before it can be used.
var ErrSchema = errors.New("schema does not fit")

// Versioned is a database that knows the version of its schema.
type Versioned interface {
	SchemaVersion(ctx context.Context) (version uint, dirty bool, err error)
}

// VerifySchema returns an error that wraps ErrSchema and says what to do, unless the
// schema has the version that this program needs, or a newer one. A newer one is
// right: every migration leaves the program before it working. A dirty version above
// this program's is a newer migration that is still running.
func VerifySchema(ctx context.Context, database Versioned) (version uint, err error) {
	have, dirty, err := database.SchemaVersion(ctx)
	need := migrations.Latest()
	switch {
	case err != nil:
	case have == 0 && !dirty:
		err = fmt.Errorf("%w: the database has no schema; run 'velocityd migrate up'", ErrSchema)
	case migrations.RefuseUnreleased(have) != nil:
		err = fmt.Errorf("%w: %w", ErrSchema, migrations.RefuseUnreleased(have))
	case dirty && have <= need:
		err = fmt.Errorf("%w: migration %d stopped half-way; run 'velocityd migrate status'", ErrSchema, have)
	case have < need:
		err = fmt.Errorf("%w: it is at version %d and must be at %d; run 'velocityd migrate up'", ErrSchema, have, need)
	}
	return have, err
}

// proveSchema returns a *db.UnreadyError unless the schema fits.
func proveSchema(ctx context.Context, t Target) error {
	_, err := VerifySchema(ctx, t.Probe)
	if errors.Is(err, ErrSchema) {
		return db.NewUnreadyError(err.Error(), nil)
	}
	return db.Unready(ctx, err)
}

// proveKeys returns a *db.UnreadyError if other instances have another secret key under one of the ids.
func proveKeys(ctx context.Context, t Target) error {
	err := t.Store.CompareKeys(ctx, t.Keys)
	if errors.Is(err, service.ErrConflict) {
		return db.NewUnreadyError(err.Error(), nil)
	}
	return db.Unready(ctx, err)
}

// Explain adds the cure to an error of a connection to the database.
func Explain(err error) error {
	if session.IsUnverified(err) {
		return fmt.Errorf("%w (--db-tls-ca or VELOCITY_DB_TLS_CA names the file of the database's CA; the certificate must "+
			"name the host of the DSN, unless that says tls=verify-ca)", err)
	}
	return err
}
