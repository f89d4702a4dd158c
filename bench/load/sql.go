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

	"velocityd/bench/workload"
)

// errDeadlock is the engine's number for a transaction that it rolled back
// because two waited for each other.
const errDeadlock = 1213

const maxRetries = 100

// dialSQL makes connections without the pool of database/sql, whose locks would add to
// the generator's cost.
func dialSQL(order workload.Order) (dial, error) {
	cfg, err := mysql.ParseDSN(order.Address)
	if err != nil {
		return nil, errors.New("parse the DSN: write user@unix(/path)/database")
	}
	recording := order.Protocol == workload.Recording
	cfg.InterpolateParams = true // one round trip for a CALL
	cfg.MultiStatements = recording
	cfg.Logger = &mysql.NopLogger{}
	cfg.ReadTimeout = patience
	connector, err := mysql.NewConnector(cfg)
	if err != nil {
		return nil, fmt.Errorf("make a connector: %w", err)
	}
	return func(ctx context.Context, _ time.Time) (caller, error) {
		opened, err := connector.Connect(ctx)
		if err != nil {
			return nil, err
		}
		c, ok := opened.(conn)
		if !ok {
			return nil, errors.New("the driver cannot query without a statement")
		}
		if !recording {
			return &sqlCaller{conn: c, row: make([]driver.Value, 0, 16)}, nil
		}
		_, err = c.ExecContext(ctx, "SET autocommit = 0; SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED", nil)
		return &recorder{conn: c}, err
	}, nil
}

// conn is the part of the driver's connections that the generator uses.
type conn interface {
	driver.Conn
	driver.QueryerContext
	driver.ExecerContext
}

// sqlCaller calls check_velocity.
type sqlCaller struct {
	conn conn
	row  []driver.Value
}

func (c *sqlCaller) close() { _ = c.conn.Close() }

// ask repeats a call that ended with a deadlock, as real callers would have to.
func (c *sqlCaller) ask(_ context.Context, buckets []bucket) (answer, error) {
	args := []driver.NamedValue{
		{Ordinal: 1, Value: int64(buckets[0].zone)},
		{Ordinal: 2, Value: string(buckets[0].key)},
	}
	for retried := int64(0); ; retried++ {
		got, err := c.once(args)
		got.retried = retried
		var engine *mysql.MySQLError
		if !errors.As(err, &engine) || engine.Number != errDeadlock || retried == maxRetries {
			return got, err
		}
	}
}

// once sends one call and reads its whole answer. It has no context, because watching one
// would cost more than the call; the connection has a read timeout.
func (c *sqlCaller) once(args []driver.NamedValue) (got answer, err error) {
	rows, err := c.conn.QueryContext(context.Background(), "CALL check_velocity(?, ?)", args)
	if err != nil {
		return got, err
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	c.row = c.row[:len(rows.Columns())]
	if err := rows.Next(c.row); err != nil {
		return got, fmt.Errorf("read the answer: %w", err)
	}
	blocked, ok := c.row[0].(int64)
	if !ok {
		return got, fmt.Errorf("blocked is a %T", c.row[0])
	}
	if err := rows.Next(c.row); !errors.Is(err, io.EOF) {
		return got, errors.Join(errors.New("the answer does not end after its row"), err)
	}
	return decided(blocked != 0), nil
}

// recorder inserts the rows of a limiter and commits, in one packet. It counts nothing, and allows
// everything.
type recorder struct {
	conn      conn
	statement []byte
}

func (r *recorder) close() { _ = r.conn.Close() }

func (r *recorder) ask(_ context.Context, buckets []bucket) (answer, error) {
	r.statement = appendRecord(r.statement[:0], buckets, time.Now())
	if _, err := r.conn.ExecContext(context.Background(), string(r.statement), nil); err != nil {
		return answer{}, err
	}
	return answer{admitted: int64(len(buckets))}, nil
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
