package main

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"velocityd/db"
	"velocityd/migrations"
	"velocityd/service"
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
func openDatabase(ctx context.Context, o db.Options) (*db.Pool, error) {
	pool, err := db.Open(ctx, o)
	if err != nil {
		return nil, err
	}
	if err := verifySchema(ctx, pool); err != nil {
		_ = pool.Close() // the first error says more
		return nil, fmt.Errorf("database %s: %w", db.RedactDSN(o.DSN), err)
	}
	return pool, nil
}

// verifySchema returns an errSchema that says what to do unless the schema is
// the one this program needs, or newer: migrations come before the programs that
// need them, so each must leave the program before it working. A dirty version
// above ours is such a migration on its way.
func verifySchema(ctx context.Context, pool *db.Pool) error {
	have, dirty, err := pool.SchemaVersion(ctx)
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

// backend is the database of a service, which may not have been reached yet:
// until then it answers service.ErrBusy.
type backend struct {
	pools atomic.Pointer[pools]
}

// pools are the connections of a service. The probe has one of its own: an
// instance whose connections are all at work is busy, which must not make load
// balancers take it, and then the others, for broken.
type pools struct {
	serving *db.Pool
	probe   *db.Pool
}

var _ service.CheckStore = (*backend)(nil)

func (b *backend) reached() (*pools, error) {
	if p := b.pools.Load(); p != nil {
		return p, nil
	}
	return nil, fmt.Errorf("%w: database not reached yet", service.ErrBusy)
}

// connect opens the pools for good. Its errors are those of openDatabase.
func (b *backend) connect(ctx context.Context, o db.Options) error {
	ctx, cancel := context.WithTimeout(ctx, connectTimeout)
	defer cancel()
	serving, err := openDatabase(ctx, o)
	if err != nil {
		return err
	}
	o.MaxConns = 1
	probe, err := openDatabase(ctx, o)
	if err != nil {
		_ = serving.Close() // the first error says more
		return err
	}
	b.pools.Store(&pools{serving: serving, probe: probe})
	return nil
}

// close lets the database go, if there is one. Nothing is lost by an error of
// it: every decision was committed before it was answered.
func (b *backend) close() {
	if p := b.pools.Load(); p != nil {
		_ = p.serving.Close()
		_ = p.probe.Close()
	}
}

// CheckAll implements service.CheckStore.
func (b *backend) CheckAll(ctx context.Context, checks []service.Check) ([]service.Decision, error) {
	p, err := b.reached()
	if err != nil {
		return nil, err
	}
	return db.NewProcStore(p.serving).CheckAll(ctx, checks)
}

// Zones returns all zones, as db.Pool does.
func (b *backend) Zones(ctx context.Context) ([]service.Zone, error) {
	p, err := b.reached()
	if err != nil {
		return nil, err
	}
	return p.serving.Zones(ctx)
}

// Zone returns one zone, as db.Pool does.
func (b *backend) Zone(ctx context.Context, id int64) (service.Zone, error) {
	p, err := b.reached()
	if err != nil {
		return service.Zone{}, err
	}
	return p.serving.Zone(ctx, id)
}

// Txn returns one recorded attempt, as db.Pool does.
func (b *backend) Txn(ctx context.Context, id uint64) (service.Txn, error) {
	p, err := b.reached()
	if err != nil {
		return service.Txn{}, err
	}
	return p.serving.Txn(ctx, id)
}

// ready returns nil if checks can be decided now, or the reason in words that
// are fit for any caller, around the error that is not.
func (b *backend) ready(ctx context.Context) error {
	p, err := b.reached()
	if err == nil {
		err = verifySchema(ctx, p.probe)
	}
	switch {
	case err == nil:
		return nil
	case errors.Is(err, errSchema):
		return unready{"the database's schema is not the one that is needed", err}
	}
	return unready{"the database cannot be reached", err}
}

// unready is a reason for not being ready. Its text is for callers, its cause
// for the log.
type unready struct {
	text  string
	cause error
}

func (u unready) Error() string { return u.text }
func (u unready) Unwrap() error { return u.cause }
