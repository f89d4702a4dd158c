// Package db carries out the rules of service on MySQL, MariaDB, Vitess and TiDB: it locks, reads,
// decides and records checks, and keeps the records that limits are made of. It must not know HTTP,
// and nothing but cmd imports it.
package db

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"time"

	"github.com/jmoiron/sqlx"

	"velocityd/db/history"
	"velocityd/db/outbox"
	"velocityd/db/records"
	"velocityd/db/retention"
	"velocityd/db/session"
	"velocityd/db/subject"
	"velocityd/db/totals"
	"velocityd/service"
	"velocityd/service/backtest"
	"velocityd/service/webhook"
)

// Store carries out the rules of service in one database. Every connection has
// the session settings that the SQL of this package relies on; see session.go.
type Store struct {
	// Zones, overrides, credentials, webhooks and their audit, lockouts, and back-tests that instances make.
	Records *records.Tables
	History *history.Reader // recorded attempts
	Totals  *totals.Store   // numbers of attempts
	Outbox  *outbox.Outbox  // events

	pools
	retention *retention.Runner
	events    *retention.Runner
	probe     *Probe
	lockWait  time.Duration
	cache     *cache
	database  *session.Database
	observe   func(session.Event) // or nil
}

var _ service.CheckStore = (*Store)(nil)

// Open returns the store of a database and connects to nothing yet: a database
// that is away is ErrBusy for every caller. The error wraps service.ErrInvalid if
// the options are wrong and never holds the password.
func Open(o session.Options) (*Store, error) {
	o.LockWait = cmp.Or(o.LockWait, session.DefaultLockWait)
	database := session.NewDatabase(o.Engine)
	pools, err := newPools(o, database)
	if err != nil {
		return nil, err
	}
	probe, err := newProbe(o, pools.spare, database)
	if err != nil {
		return nil, err
	}
	pool := pools.lookUps
	tables := records.New(pool, database)
	reader := history.New(pool)
	ids := idsOn(database, reader)
	return &Store{
		Records: tables, History: reader, Totals: totals.New(pool, ids), Outbox: outbox.New(pool), pools: pools, probe: probe,
		retention: retention.NewRunner(pools.part(1), retention.ForRetention, tasks(tables, ids)...),
		events:    retention.NewRunner(pools.part(1), retention.ForEvents, retention.EventTasks()...),
		lockWait:  o.LockWait, cache: newCache(seenPlaces), database: database, observe: o.Observe,
	}, nil
}

// Close closes the connections. Those at work are closed when they come back, and Close does NOT
// wait for them.
func (s *Store) Close() error {
	return s.close()
}

// idsOn returns the ranges of ids of times: all ids where these say nothing of times.
func idsOn(database *session.Database, reader *history.Reader) totals.IDs {
	return func(ctx context.Context, since, until time.Time) (low, high uint64, err error) {
		if !dialectOf(database.Engine()).bounds().idsTellTime {
			return 0, math.MaxUint64, nil
		}
		return reader.IDsOf(ctx, since, until)
	}
}

// tasks are those of the runner of retention, in the order in which they run.
func tasks(tables *records.Tables, ids totals.IDs) []retention.Task {
	first := []retention.Task{retention.Marks(), totals.Rollup(ids), totals.Age(), records.OldJobs()}
	return append(first, retention.Tasks(tables.RemoveExpired)...)
}

// Subjects returns the rows that name buckets.
func (s *Store) Subjects(o subject.Options) *subject.Rows {
	return subject.New(s.lookUps, s.database, s.Records, o)
}

// Replays returns the recorded attempts as back-tests replay them, with the settings of their times.
func (s *Store) Replays() backtest.Source {
	return struct {
		*records.Tables
		*history.Reader
	}{s.Records, s.History}
}

// RetentionRunner returns the runner of the tasks that one instance among all does again and again.
func (s *Store) RetentionRunner() *retention.Runner { return s.retention }

// Probe returns the probe of the store's database. The store learns from it the engine and its shards:
// so a store that has decided nothing yet can decide when the probe has succeeded. The store closes it.
func (s *Store) Probe() *Probe { return s.probe }

// EventRunner returns the runner of the tasks that make events within seconds, by one instance among all.
func (s *Store) EventRunner() *retention.Runner { return s.events }

// WebhookRunner returns the runner that sends events to webhooks, for one instance among all.
func (s *Store) WebhookRunner(send webhook.Send) *retention.Runner {
	return retention.NewRunner(s.part(1), retention.ForWebhooks, outbox.Deliveries(send))
}

// SchemaVersion returns the number of the newest migration that was begun, and
// whether it stopped half-way. A database that was never migrated has version 0.
// The error wraps service.ErrBusy if the engine is away.
func (s *Store) SchemaVersion(ctx context.Context) (version uint, dirty bool, err error) {
	return schemaVersion(ctx, s.lookUps)
}

func schemaVersion(ctx context.Context, from session.Reader) (version uint, dirty bool, err error) {
	rows := []struct {
		Version int64 `db:"version"` // -1 when taking back the first stopped half-way
		Dirty   bool  `db:"dirty"`
	}{}
	err = from.SelectContext(ctx, &rows, `
SELECT version, dirty
  FROM schema_migrations`)
	switch {
	case session.IsNumber(err, session.NumberNoSuchTable), err == nil && len(rows) == 0:
		return 0, false, nil
	case err != nil:
		return 0, false, fmt.Errorf("read schema version: %w", session.LookupError(err))
	}
	return uint(max(rows[0].Version, 0)), rows[0].Dirty, nil
}

// dialect returns how to work on the engine of the database. It connects if no connection was made
// yet. The error wraps service.ErrBusy if the engine is away.
func (s *Store) dialect(ctx context.Context) (dialect, error) {
	if s.database.Engine() == "" {
		if err := s.lookUps.On(ctx, func(*sqlx.Conn) error { return nil }); err != nil {
			return nil, fmt.Errorf("look for the engine: %w", session.LookupError(err))
		}
	}
	return dialectOf(s.database.Engine()), nil
}
