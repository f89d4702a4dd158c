package main

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"strconv"
	"time"

	"github.com/go-sql-driver/mysql"

	"velocityd/bench/round"
)

// errDeadlock is the engine's number for a transaction that it rolled back
// because two waited for each other.
const errDeadlock = 1213

const maxRetries = 100

// sqlDialer makes connections without the pool of database/sql, whose locks would add to
// the generator's cost.
type sqlDialer struct {
	connector driver.Connector
	recording bool
}

func newSQLDialer(order round.Order) (sqlDialer, error) {
	cfg, err := mysql.ParseDSN(order.Address)
	if err != nil {
		return sqlDialer{}, errors.New("parse the DSN: write user@unix(/path)/database")
	}
	recording := order.Protocol == round.Recording
	cfg.InterpolateParams = true // one round trip for a CALL
	cfg.MultiStatements = recording
	cfg.Logger = &mysql.NopLogger{}
	cfg.ReadTimeout = patience
	connector, err := mysql.NewConnector(cfg)
	if err != nil {
		return sqlDialer{}, fmt.Errorf("make a connector: %w", err)
	}
	return sqlDialer{connector: connector, recording: recording}, nil
}

// conn is the part of the driver's connections that the generator uses.
type conn interface {
	driver.Conn
	driver.QueryerContext
	driver.ExecerContext
}

func (d sqlDialer) dial(ctx context.Context, _ time.Time) (caller, error) {
	opened, err := d.connector.Connect(ctx)
	if err != nil {
		return nil, err
	}
	c, ok := opened.(conn)
	if !ok {
		return nil, errors.New("the driver cannot query without a statement")
	}
	if !d.recording {
		return &sqlCaller{conn: c, row: make([]driver.Value, 0, 16)}, nil
	}
	_, err = c.ExecContext(ctx, "SET autocommit = 0; SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED", nil)
	return &recorder{conn: c}, err
}

// sqlCaller calls check_velocity.
type sqlCaller struct {
	conn conn
	row  []driver.Value
}

func (c *sqlCaller) close() { _ = c.conn.Close() }

// ask repeats a call that ended with a deadlock, as real callers would have to.
func (c *sqlCaller) ask(_ context.Context, buckets []bucket) (got answer, retried int, err error) {
	args := []driver.NamedValue{
		{Ordinal: 1, Value: int64(buckets[0].zone)},
		{Ordinal: 2, Value: string(buckets[0].key)},
	}
	for ; ; retried++ {
		blocked, err := c.once(args)
		var engine *mysql.MySQLError
		switch {
		case err == nil:
			return decided(blocked), retried, nil
		case !errors.As(err, &engine) || engine.Number != errDeadlock || retried == maxRetries:
			return answer{}, retried, err
		}
	}
}

// once sends one call and reads its whole answer. It has no context, because watching one
// would cost more than the call; the connection has a read timeout.
func (c *sqlCaller) once(args []driver.NamedValue) (blocked bool, err error) {
	rows, err := c.conn.QueryContext(context.Background(), "CALL check_velocity(?, ?)", args)
	if err != nil {
		return false, err
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	c.row = c.row[:len(rows.Columns())]
	if err := rows.Next(c.row); err != nil {
		return false, fmt.Errorf("read the answer: %w", err)
	}
	if blocked, err = truth(c.row[0]); err != nil {
		return false, err
	}
	if err := rows.Next(c.row); !errors.Is(err, io.EOF) {
		return false, errors.Join(errors.New("the answer does not end after its row"), err)
	}
	return blocked, nil
}

// truth reads a BOOLEAN, whose Go type differs between versions of the driver.
func truth(v driver.Value) (bool, error) {
	switch v := v.(type) {
	case int64:
		return v != 0, nil
	case []byte:
		return len(v) != 1 || v[0] != '0', nil
	}
	return false, fmt.Errorf("blocked is a %T", v)
}

// recorder inserts the rows of a limiter and commits, in one packet. It counts nothing, and allows
// everything.
type recorder struct {
	conn      conn
	statement []byte
}

func (r *recorder) close() { _ = r.conn.Close() }

func (r *recorder) ask(_ context.Context, buckets []bucket) (got answer, retried int, err error) {
	r.statement = appendRecord(r.statement[:0], buckets, time.Now())
	if _, err := r.conn.ExecContext(context.Background(), string(r.statement), nil); err != nil {
		return answer{}, 0, err
	}
	return answer{admitted: int64(len(buckets))}, 0, nil
}

// appendRecord appends a row's values. It needs no escapes, because the benchmark's keys
// are letters, digits and hyphens.
func appendRecord(text []byte, buckets []bucket, now time.Time) []byte {
	text = append(text, "INSERT INTO zone_txn (created_at, zone_id, bucket_key, blocked, would_block, counted) VALUES "...)
	for i, b := range buckets {
		if i > 0 {
			text = append(text, ", "...)
		}
		text = now.UTC().AppendFormat(append(text, '('), "'2006-01-02 15:04:05.000000'")
		text = strconv.AppendInt(append(text, ", "...), int64(b.zone), 10)
		text = append(append(text, ", '"...), b.key...)
		text = append(text, "', 0, 0, 1)"...)
	}
	return append(text, "; COMMIT"...)
}
