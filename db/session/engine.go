package session

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/go-sql-driver/mysql"

	"velocityd/internal/address"
	"velocityd/internal/engine"
)

// Database remembers the engine that the connections of a store lead to. It stays the same
// until the process ends.
type Database struct {
	engine   atomic.Pointer[engine.Engine]
	identity atomic.Pointer[string] // of the database
	Shards   Shards
}

// ErrOtherDatabase says that a connection leads to another database than those before it. Two
// databases would each admit the rate.
var ErrOtherDatabase = fmt.Errorf("%w: it is another database than the one that this service has used since its start",
	address.ErrElsewhere)

// identify compares the database that a connection leads to with that of the first one.
// A database that has no identity yet, or does not let the account read it, is as good as any:
// readiness and doctor name the missing tables.
func (m *Database) identify(ctx context.Context, s *Conn) error {
	identity, err := s.Identity(ctx)
	var refused *mysql.MySQLError
	switch {
	case errors.As(err, &refused):
		return nil
	case err != nil:
		return fmt.Errorf("ask for the identity of the database: %w", err)
	case identity == "" || m.identity.CompareAndSwap(nil, &identity) || *m.identity.Load() == identity:
		return nil
	}
	return fmt.Errorf("%s: %w", s.address, ErrOtherDatabase)
}

// NewDatabase returns a memory that holds the engine already unless it is engine.Auto or
// empty.
func NewDatabase(of engine.Engine) *Database {
	m := new(Database)
	if of != "" && of != engine.Auto {
		m.engine.Store(&of)
	}
	return m
}

// saw remembers the engine that a connection leads to, and returns the one that counts: the one that is
// remembered already stays.
func (m *Database) saw(of engine.Engine) engine.Engine {
	m.engine.CompareAndSwap(nil, &of)
	return *m.engine.Load()
}

// Engine returns the engine, or "" if no connection was made yet.
func (m *Database) Engine() engine.Engine {
	if of := m.engine.Load(); of != nil {
		return *of
	}
	return ""
}

// MayHaveRoutines says that the engine has procedures, as far as it is known.
func (m *Database) MayHaveRoutines() bool {
	of := m.Engine()
	return of == "" || of.HasRoutines()
}

// Identity returns the identity of the database, or "" if it has none.
func (s *Conn) Identity(ctx context.Context) (identity string, err error) {
	err = s.Each(ctx, 1, "SELECT value FROM velocity_identity WHERE name = 'database'", func(row []driver.Value) error {
		identity = Text(row[0])
		return nil
	})
	return identity, err
}
