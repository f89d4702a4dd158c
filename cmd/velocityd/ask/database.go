package ask

import (
	"context"
	"fmt"

	"velocityd/cmd/velocityd/doctor"
	"velocityd/db"
	"velocityd/db/session"
)

// OpenDatabase connects to a database and verifies its schema. The error wraps
// service.ErrBusy if the database is away. Every other error is a fault of the
// configuration, which waiting does not mend.
func OpenDatabase(ctx context.Context, o session.Options) (*db.Store, error) {
	store, err := db.Open(o)
	if err != nil {
		return nil, err
	}
	if _, err := doctor.VerifySchema(ctx, store); err != nil {
		_ = store.Close() // the first error says more
		return nil, fmt.Errorf("database %s: %w", session.RedactDSN(o.DSN), err)
	}
	return store, nil
}
