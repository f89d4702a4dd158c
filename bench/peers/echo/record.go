package main

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"time"

	"github.com/go-sql-driver/mysql"
)

// recorder inserts a txn for each bucket of a check before the check is answered, and commits.
// Checks that meet share a packet, an INSERT and a COMMIT, as those of velocityd do. It locks
// nothing and counts nothing.
type recorder struct {
	mu        sync.Mutex
	gathering *shared
	ready     chan struct{} // has a value while gathering may hold a check
}

// shared is what is recorded with one COMMIT.
type shared struct {
	text []byte        // empty while there is no check
	done chan struct{} // closed when err is set
	err  error
}

func newShared() *shared { return &shared{done: make(chan struct{})} }

// newRecorder records until ctx ends, over so many connections.
func newRecorder(ctx context.Context, dsn string, connections int) (*recorder, error) {
	cfg, err := mysql.ParseDSN(dsn)
	if err != nil {
		return nil, errors.New("parse the DSN: write user@unix(/path)/database")
	}
	cfg.MultiStatements = true
	connector, err := mysql.NewConnector(cfg)
	if err != nil {
		return nil, fmt.Errorf("make a connector: %w", err)
	}
	r := &recorder{gathering: newShared(), ready: make(chan struct{}, 1)}
	for range connections {
		conn, err := connector.Connect(ctx)
		if err != nil {
			return nil, fmt.Errorf("connect to the database: %w", err)
		}
		execer, ok := conn.(driver.ExecerContext)
		if !ok {
			return nil, errors.New("the driver cannot execute without a statement")
		}
		if _, err := execer.ExecContext(ctx, "SET autocommit = 0; SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED", nil); err != nil {
			return nil, fmt.Errorf("set up the session: %w", err)
		}
		go r.work(ctx, execer)
	}
	return r, nil
}

// record returns when the buckets of a check are recorded.
func (r *recorder) record(buckets []bucket) error {
	r.mu.Lock()
	s := r.gathering
	for _, b := range buckets {
		s.add(b)
	}
	r.mu.Unlock()
	select {
	case r.ready <- struct{}{}:
	default: // a connection has been called already
	}
	<-s.done
	return s.err
}

// add appends a row. It needs no escapes, because the benchmark's keys are letters, digits and
// hyphens.
func (s *shared) add(b bucket) {
	if len(s.text) == 0 {
		s.text = append(s.text, "INSERT INTO zone_txn (created_at, zone_id, bucket_key, blocked, would_block, counted) VALUES "...)
	} else {
		s.text = append(s.text, ", "...)
	}
	s.text = time.Now().UTC().AppendFormat(append(s.text, '('), "'2006-01-02 15:04:05.000000'")
	s.text = strconv.AppendInt(append(s.text, ", "...), b.ZoneID, 10)
	s.text = append(append(append(s.text, ", '"...), b.BucketKey...), "', 0, 0, 1)"...)
}

// work records what has gathered, again and again.
func (r *recorder) work(ctx context.Context, conn driver.ExecerContext) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-r.ready:
		}
		r.mu.Lock()
		s := r.gathering
		r.gathering = newShared()
		r.mu.Unlock()
		if len(s.text) > 0 {
			_, s.err = conn.ExecContext(ctx, string(append(s.text, "; COMMIT"...)), nil)
		}
		close(s.done)
	}
}
