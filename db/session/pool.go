package session

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"time"

	"github.com/jmoiron/sqlx"
)

// Reader reads rows: in a transaction, or each time by a connection of a pool.
type Reader interface {
	GetContext(ctx context.Context, dest any, query string, args ...any) error
	SelectContext(ctx context.Context, dest any, query string, args ...any) error
}

// Pool is connections for all but checks: all of Conns, or so many of them. If a caller leaves, its session is ended:
// its statement would go on without a reader, beside those of the connections that take its place.
type Pool struct {
	Conns  *sqlx.DB
	Killer *Killer
	places chan struct{}

	waits  atomic.Int64
	waited atomic.Int64 // nanoseconds
}

// NewPool returns a pool of so many of the connections of all, which it may share with others.
func NewPool(all *sqlx.DB, killer *Killer, conns int) *Pool {
	return &Pool{Conns: all, Killer: killer, places: make(chan struct{}, conns)}
}

// Stats returns the use of all connections, and how often and how long callers of the pool have waited for one.
func (p *Pool) Stats() sql.DBStats {
	stats := p.Conns.Stats()
	stats.WaitCount += p.waits.Load()
	stats.WaitDuration += time.Duration(p.waited.Load())
	return stats
}

// enter takes a place, to be given back to places.
func (p *Pool) enter(ctx context.Context) error {
	select {
	case p.places <- struct{}{}:
		return nil
	default:
	}
	p.waits.Add(1)
	defer func(since time.Time) { p.waited.Add(int64(time.Since(since))) }(time.Now())
	select {
	case p.places <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// On calls do with a connection.
func (p *Pool) On(ctx context.Context, do func(*sqlx.Conn) error) error {
	return p.With(ctx, func(conn *sqlx.Conn) (clean bool, err error) {
		err = do(conn)
		return err == nil || ctx.Err() == nil, err
	})
}

// With calls do with a connection. If that is not clean afterwards, it is closed. The error is ErrMisfit
// in the place of one that quotes a value.
func (p *Pool) With(ctx context.Context, do func(*sqlx.Conn) (clean bool, err error)) error {
	if err := p.enter(ctx); err != nil {
		return fmt.Errorf("%w: no connection: %w", ErrUnsent, err)
	}
	leave := func() { <-p.places }
	conn, err := p.Conns.Connx(ctx)
	if err != nil {
		leave()
		return fmt.Errorf("%w: no connection: %w", ErrUnsent, err)
	}
	clean, err := do(conn)
	if err != nil && isUnscanned(err) {
		err = ErrMisfit
	}
	clean = clean && !errors.Is(err, ErrMisfit)
	p.Killer.Release(ctx, conn.Conn, clean, leave)
	return err
}

// isUnscanned says that a row could not be read into its variables: it has other columns, or a value
// that cannot be theirs, which the error quotes. These errors have no types.
func isUnscanned(err error) bool {
	for _, words := range []string{
		"sql: Scan error", "sql: expected ", "missing destination name ",
		"scannable dest type ",
	} {
		if strings.Contains(err.Error(), words) {
			return true
		}
	}
	return false
}

// GetContext implements reader.
func (p *Pool) GetContext(ctx context.Context, dest any, query string, args ...any) error {
	return p.On(ctx, func(conn *sqlx.Conn) error { return conn.GetContext(ctx, dest, query, args...) })
}

// SelectContext implements reader.
func (p *Pool) SelectContext(ctx context.Context, dest any, query string, args ...any) error {
	return p.On(ctx, func(conn *sqlx.Conn) error { return conn.SelectContext(ctx, dest, query, args...) })
}

// Placeholders returns the inside of a list of n values.
func Placeholders(n int) string { return strings.TrimPrefix(strings.Repeat(", ?", n), ", ") }

// Arguments returns a list as arguments of a statement.
func Arguments[T any](list []T) []any {
	args := make([]any, len(list))
	for i, value := range list {
		args[i] = value
	}
	return args
}

// Exec carries out a statement that returns no rows, outside any other transaction.
func (p *Pool) Exec(ctx context.Context, query string, args ...any) error {
	return p.On(ctx, func(conn *sqlx.Conn) error {
		_, err := conn.ExecContext(ctx, query, args...)
		return err
	})
}

// InTx calls do in a transaction, which do commits or else is rolled back.
func (p *Pool) InTx(ctx context.Context, o *sql.TxOptions, do func(*sqlx.Tx) error) error {
	return p.On(ctx, func(conn *sqlx.Conn) error {
		tx, err := conn.BeginTxx(ctx, o)
		if err != nil {
			return err
		}
		defer tx.Rollback() // after Commit it does nothing
		return do(tx)
	})
}

// Of returns the connection of this package that conn holds. It has no other user until conn is closed.
func Of(conn *sql.Conn) (own *Conn, err error) {
	err = conn.Raw(func(inner any) error {
		var ok bool
		if own, ok = inner.(*Conn); !ok {
			return errors.New("the connection is not one of this package")
		}
		return nil
	})
	return own, err
}

// Discard gives conn back to its pool, which closes the connection instead of keeping it.
func Discard(conn *sql.Conn) {
	_ = conn.Raw(func(any) error { return driver.ErrBadConn })
}
