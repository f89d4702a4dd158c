package daemon

import (
	"context"
	"errors"
	"fmt"
	"time"

	"velocityd/migrations"
)

const (
	// ConnectTimeout bounds one try to reach a database and look at its schema.
	ConnectTimeout = 5 * time.Second
	// reconnectPause is the time between two tries to reach a database that is away.
	reconnectPause = time.Second
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
	case dirty && have <= need:
		err = fmt.Errorf("%w: migration %d stopped half-way; run 'velocityd migrate status'", ErrSchema, have)
	case have < need:
		err = fmt.Errorf("%w: it is at version %d and must be at %d; run 'velocityd migrate up'", ErrSchema, have, need)
	}
	return have, err
}
