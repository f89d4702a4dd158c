package db

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/go-sql-driver/mysql"
	"github.com/jmoiron/sqlx"

	"velocityd/db/address"
	"velocityd/db/engine"
)

// Engine is what carries out the rules of a database.
type Engine string

// The engines. EngineAuto stands for whichever the database says that it is.
const (
	EngineAuto   Engine = engine.Auto
	EngineMySQL  Engine = engine.MySQL  // procedures and triggers are there
	EngineVitess Engine = engine.Vitess // buckets may lie on several shards
	EngineTiDB   Engine = engine.TiDB
)

// hasRoutines says that the database has the procedures and triggers of package migrations.
// Where it has none, this package carries out everything by statements of its own.
func (e Engine) hasRoutines() bool { return e == EngineMySQL }

// engineOf tells the engine by what it answers to VERSION() and @@version_comment.
func engineOf(version, comment string) Engine { return Engine(engine.Of(version, comment)) }

// engineMemory remembers the engine that the connections of a store lead to. It stays the same
// until the process ends.
type engineMemory struct {
	engine   atomic.Pointer[Engine]
	identity atomic.Pointer[string] // of the database
	shards   shardMemory
}

// errOtherDatabase says that a connection leads to another database than those before it. Two
// databases would each admit the rate.
var errOtherDatabase = fmt.Errorf("%w: it is another database than the one that this service has used since its start", address.ErrElsewhere)

// identify holds the database that a connection leads to against that of the first one.
// A database that has no identity yet, or does not let the account read it, is as good as any:
// readiness and doctor say what it lacks.
func (m *engineMemory) identify(ctx context.Context, s *connection) error {
	identity, err := s.identity(ctx)
	var refused *mysql.MySQLError
	switch {
	case errors.As(err, &refused):
		return nil
	case err != nil:
		return fmt.Errorf("ask for the identity of the database: %w", err)
	case identity == "" || m.identity.CompareAndSwap(nil, &identity) || *m.identity.Load() == identity:
		return nil
	}
	return fmt.Errorf("%s: %w", s.address, errOtherDatabase)
}

// newEngineMemory returns a memory that holds the engine already unless it is EngineAuto or
// empty.
func newEngineMemory(engine Engine) *engineMemory {
	m := new(engineMemory)
	if engine != "" && engine != EngineAuto {
		m.engine.Store(&engine)
	}
	return m
}

// saw remembers the engine that a connection leads to, and returns the one that counts: what is
// remembered already stays.
func (m *engineMemory) saw(engine Engine) Engine {
	m.engine.CompareAndSwap(nil, &engine)
	return *m.engine.Load()
}

// is returns the engine, or "" if no connection was made yet.
func (m *engineMemory) is() Engine {
	if engine := m.engine.Load(); engine != nil {
		return *engine
	}
	return ""
}

// mayHaveRoutines says that the engine has procedures, as far as it is known.
func (m *engineMemory) mayHaveRoutines() bool {
	engine := m.is()
	return engine == "" || engine.hasRoutines()
}

// engine returns the engine of the database. It connects if no connection was made yet. The
// error wraps service.ErrBusy if the engine is away.
func (s *Store) engine(ctx context.Context) (Engine, error) {
	if engine := s.engines.is(); engine != "" {
		return engine, nil
	}
	if err := s.pool.on(ctx, func(*sqlx.Conn) error { return nil }); err != nil {
		return "", fmt.Errorf("look for the engine: %w", lookupError(err))
	}
	return s.engines.is(), nil
}
