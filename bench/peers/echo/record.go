package main

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"runtime"
	"strconv"
	"sync"
	"time"

	"github.com/go-sql-driver/mysql"
)

// recorder inserts a txn for each bucket of a check before the check is answered, and commits.
// Checks that meet share a packet, an INSERT and a COMMIT, as many as in velocityd. It counts
// nothing. If lock is set, it locks the bucket of the first check that shares a packet.
type recorder struct {
	lock      string
	mu        sync.Mutex
	underWay  int // calls
	asked     int // checks of the calls under way
	gathering *shared
	ready     chan struct{} // has a value while gathering may be begun
}

// shared is what is recorded with one COMMIT.
type shared struct {
	checks int
	first  bucket
	text   []byte        // of the INSERT; empty while there is no check
	done   chan struct{} // closed when err is set
	err    error
}

// enough is how many checks must wait before a call begins beside another one, if the calls
// under way do not have more on average: velocityd's rule (decision 0024), but for its 0.1 s.
const enough = 28

func newShared() *shared { return &shared{done: make(chan struct{})} }

// newRecorder records until ctx ends, over one connection for each core, as many as velocityd has
// batches under way. If it locks, it does so over one connection, as velocityd does for one bucket.
func newRecorder(ctx context.Context, dsn, lock string) (*recorder, error) {
	connections := runtime.GOMAXPROCS(0)
	switch lock {
	case "":
	case "with", "before":
		connections = 1
	default:
		return nil, fmt.Errorf("lock %q: write with or before, or leave it out", lock)
	}
	cfg, err := mysql.ParseDSN(dsn)
	if err != nil {
		return nil, errors.New("parse the DSN: write user@unix(/path)/database")
	}
	cfg.MultiStatements = true
	connector, err := mysql.NewConnector(cfg)
	if err != nil {
		return nil, fmt.Errorf("make a connector: %w", err)
	}
	r := &recorder{lock: lock, gathering: newShared(), ready: make(chan struct{}, 1)}
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
	s.checks++
	for _, b := range buckets {
		s.add(b)
	}
	r.mu.Unlock()
	r.wake()
	<-s.done
	return s.err
}

// wake has a connection look at what has gathered.
func (r *recorder) wake() {
	select {
	case r.ready <- struct{}{}:
	default: // one has been called already
	}
}

// add appends a row. It needs no escapes, because the benchmark's keys are letters, digits and
// hyphens.
func (s *shared) add(b bucket) {
	if len(s.text) == 0 {
		s.first = b
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
		if s := r.begin(); s != nil {
			s.err = r.send(ctx, conn, s)
			r.end(s)
		}
	}
}

// begin takes what has gathered, or nil if it is too little for a call.
func (r *recorder) begin() *shared {
	r.mu.Lock()
	defer r.mu.Unlock()
	s := r.gathering
	if s.checks == 0 || r.underWay > 0 && s.checks < max(enough, r.asked/r.underWay) {
		return nil
	}
	r.gathering = newShared()
	r.underWay++
	r.asked += s.checks
	return s
}

// end lets the next call begin, and then answers the checks of a call that is over.
func (r *recorder) end(s *shared) {
	r.mu.Lock()
	r.underWay--
	r.asked -= s.checks
	r.mu.Unlock()
	r.wake()
	close(s.done)
}

// send records what is shared and commits, with the lock that is wanted. The session has autocommit
// off, so the lock begins the transaction and needs no statement more.
func (r *recorder) send(ctx context.Context, conn driver.ExecerContext, s *shared) error {
	rows := string(append(s.text, "; COMMIT"...))
	switch r.lock {
	case "with":
		rows = s.first.lock() + "; " + rows
	case "before":
		if _, err := conn.ExecContext(ctx, s.first.lock(), nil); err != nil {
			return err
		}
	}
	_, err := conn.ExecContext(ctx, rows, nil)
	return err
}

// lock returns the statement that locks a bucket's row.
func (b bucket) lock() string {
	return fmt.Sprintf("SELECT zone_id FROM zone_bucket_lock WHERE zone_id = %d AND bucket_key = '%s' FOR UPDATE", b.ZoneID, b.BucketKey)
}
