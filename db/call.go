package db

import (
	"cmp"
	"context"
	"database/sql"
	"database/sql/driver"
	"fmt"
	"math/rand/v2"
	"time"

	"velocityd/service"
)

// firstBackoff is the longest first pause between two tries of a CALL; the
// pause doubles and is random, so that those who met in a deadlock part.
const firstBackoff = 10 * time.Millisecond

// call makes one CALL and hands its one result set to read, again if the engine
// says that it gave up cleanly. After an error that may have left a transaction
// open the connection is closed, not pooled.
func (p *Pool) call(ctx context.Context, what string, read func(*sql.Rows) error, query string, args ...any) error {
	return p.callBut(ctx, 0, what, read, query, args...)
}

// callBut does what call does, but returns the engine's error number but at once.
func (p *Pool) callBut(
	ctx context.Context, but uint16, what string, read func(*sql.Rows) error, query string, args ...any,
) error {
	backoff := firstBackoff
	for try := 1; ; try++ {
		sent, err := p.callOnce(ctx, read, query, args...)
		if err == nil {
			return nil
		}
		if !sent {
			return fmt.Errorf("%w: no connection for a %s: %w", service.ErrBusy, what, err)
		}
		f := faultOf(err)
		if try >= f.tries || isNumber(err, but) || !p.hasTime(ctx) || !pause(ctx, rand.N(backoff)) {
			return fmt.Errorf("%s, try %d: %w", what, try, asKind(f.kind, err))
		}
		backoff *= 2
	}
}

// hasTime says that one more lock wait would end before ctx does: a check that
// gives up now is known not to be recorded, one that is cut off is not. Engines
// look at lock waits once a second, so a wait may take a second longer.
func (p *Pool) hasTime(ctx context.Context) bool {
	deadline, limited := ctx.Deadline()
	return !limited || time.Until(deadline) > p.lockWait+time.Second
}

// callOnce reports whether the CALL may have reached the engine.
func (p *Pool) callOnce(
	ctx context.Context, read func(*sql.Rows) error, query string, args ...any,
) (sent bool, err error) {
	conn, err := p.db.Conn(ctx)
	if err != nil {
		return false, err
	}
	whole := false
	defer func() {
		if !whole && !faultOf(err).clean {
			_ = conn.Raw(func(any) error { return driver.ErrBadConn }) // closes it
		}
		_ = conn.Close() // back to the pool
	}()
	rows, err := conn.QueryContext(ctx, query, args...)
	if err != nil {
		return true, err
	}
	defer rows.Close()
	if err := cmp.Or(read(rows), rows.Err()); err != nil {
		return true, err
	}
	// Read the CALL's closing packet here: the driver's Close would wait for it
	// without a deadline. If it does not come, the answer holds all the same.
	for rows.Next() || rows.NextResultSet() { //nolint:revive // nothing is left to look at
	}
	whole = rows.Err() == nil
	return true, nil
}

// pause waits and says whether ctx still lives.
func pause(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}
