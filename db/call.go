package db

import (
	"cmp"
	"context"
	"database/sql"
	"database/sql/driver"
	"fmt"
	"math/rand/v2"
	"time"
)

const (
	// firstBackoff is the longest first pause between two tries; the pause doubles
	// and is random, so that those who met in a deadlock part.
	firstBackoff = 10 * time.Millisecond
	// killTimeout bounds how long an abandoned statement keeps its connection's
	// place among MaxConns.
	killTimeout = 2 * time.Second
)

// again does once, and again after a pause while the engine's error says that
// nothing was recorded and that another try may help. The error names what was
// done and wraps the service error that it stands for.
func (s *Store) again(ctx context.Context, what string, once func() error) error {
	backoff := firstBackoff
	for try := 1; ; try++ {
		err := once()
		if err == nil {
			return nil
		}
		f := faultOf(err)
		if try >= f.tries || !s.hasTime(ctx) || !pause(ctx, rand.N(backoff)) {
			return fmt.Errorf("%s, try %d: %w", what, try, asKind(f.kind, err))
		}
		backoff *= 2
	}
}

// call makes one CALL, of what is not a check, and hands its one result set to
// read, again if the engine says that it gave up cleanly. After an error that may
// have left a transaction open the connection is closed, not pooled.
func (s *Store) call(
	ctx context.Context, what string, read func(*sql.Rows) error, query string, args ...any,
) error {
	return s.again(ctx, what, func() error {
		conn, err := s.pool.Conn(ctx)
		if err != nil {
			return fmt.Errorf("%w: no connection: %w", errUnsent, err)
		}
		whole, err := callOn(ctx, conn, read, query, args...)
		s.release(ctx, conn, whole || err != nil && faultOf(err).clean)
		return err
	})
}

// callOn reports whether all of the CALL's answer was read.
func callOn(
	ctx context.Context, conn *sql.Conn, read func(*sql.Rows) error, query string, args ...any,
) (whole bool, err error) {
	rows, err := conn.QueryContext(ctx, query, args...)
	if err != nil {
		return false, err
	}
	defer rows.Close()
	if err := cmp.Or(read(rows), rows.Err()); err != nil {
		return false, err
	}
	// Read the CALL's closing packet here: the driver's Close would wait for it
	// without a deadline. If it does not come, the answer holds all the same.
	for rows.Next() || rows.NextResultSet() { //nolint:revive // nothing is left to look at
	}
	return rows.Err() == nil, nil
}

// release gives a connection back to its pool. One that is not clean is closed,
// and so is, by KILL, the session that the engine may still be working for: to
// close the socket alone would leave that statement running
// (go-sql-driver/mysql#731). Until then it keeps its place in the pool.
func (s *Store) release(ctx context.Context, conn *sql.Conn, clean bool) {
	if clean {
		_ = conn.Close()
		return
	}
	var id int64
	_ = conn.Raw(func(inner any) error {
		if own, ok := inner.(*connection); ok {
			id = own.id
		}
		return nil
	})
	abandon := func() {
		_ = conn.Raw(func(any) error { return driver.ErrBadConn }) // closes it
		_ = conn.Close()
	}
	if ctx.Err() == nil || id == 0 {
		abandon() // the engine has answered, or is away
		return
	}
	go func() {
		defer abandon()
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), killTimeout)
		defer cancel()
		_, _ = s.pool.ExecContext(ctx, fmt.Sprint("KILL ", id)) // it may have ended by itself
	}()
}

// hasTime says that one more lock wait would end before ctx does: a check that
// gives up now is known not to be recorded, one that is cut off is not. Engines
// look at lock waits once a second, so a wait may take a second longer.
func (s *Store) hasTime(ctx context.Context) bool {
	deadline, limited := ctx.Deadline()
	return !limited || time.Until(deadline) > s.lockWait+time.Second
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
