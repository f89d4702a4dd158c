package retention

import (
	"context"
	"fmt"

	"github.com/jmoiron/sqlx"

	"velocityd/db/session"
)

// runnersLock is the name of the lock that one runner among all of a purpose holds. Locks are the server's, so the
// name has the identity of the database. The procedure retain() takes that of ForRetention.
type runnersLock struct{ name string }

// acquire takes the lock of the runners of a purpose for the session of conn. It does not wait; the error is
// ErrElsewhere if another session has it.
func acquire(ctx context.Context, conn *sqlx.Conn, of Purpose) (l runnersLock, err error) {
	own, err := session.Of(conn.Conn)
	if err != nil {
		return l, err
	}
	identity, err := own.Identity(ctx)
	if err != nil {
		return l, fmt.Errorf("read the identity of the database: %w", err)
	}
	l = runnersLock{"velocityd " + string(of) + " " + identity}
	return l, l.get(ctx, conn, ErrElsewhere)
}

// prove returns an error unless the session of conn still has the lock. A session that has it takes it once
// more; one that has lost it, because something on the way gave the caller another session, finds it taken
// or free, and then has it.
func (l runnersLock) prove(ctx context.Context, conn *sqlx.Conn) error {
	return l.get(ctx, conn, errDisowned)
}

func (l runnersLock) get(ctx context.Context, conn *sqlx.Conn, otherwise error) error {
	var got *int
	if err := conn.GetContext(ctx, &got, "SELECT GET_LOCK(?, 0) FROM dual", l.name); err != nil {
		return fmt.Errorf("take the lock of the runners: %w", err)
	}
	if got == nil || *got != 1 {
		return otherwise
	}
	return nil
}

// release gives the lock back, as often as it was taken.
func (l runnersLock) release(ctx context.Context, conn *sqlx.Conn) error {
	for range 2 {
		var released *int
		if err := conn.GetContext(ctx, &released, "SELECT RELEASE_LOCK(?) FROM dual", l.name); err != nil {
			return fmt.Errorf("give back the lock of the runners: %w", err)
		}
		if released == nil || *released != 1 {
			return nil
		}
	}
	return nil
}
