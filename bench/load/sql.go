package main

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/go-sql-driver/mysql"

	"velocityd/bench/round"
)

// errDeadlock is the engine's number for a transaction that it rolled back
// because two waited for each other.
const errDeadlock = 1213

const maxRetries = 100

// sqlDialer makes connections without the pool of database/sql, whose locks
// would be the generator's and not the contender's cost.
type sqlDialer struct {
	connector driver.Connector
	textbook  bool
}

func newSQLDialer(order round.Order) (sqlDialer, error) {
	cfg, err := mysql.ParseDSN(order.Address)
	if err != nil {
		return sqlDialer{}, errors.New("parse the DSN: write user@unix(/path)/database")
	}
	cfg.InterpolateParams = true // one round trip for a CALL
	cfg.Logger = &mysql.NopLogger{}
	cfg.ReadTimeout = patience
	connector, err := mysql.NewConnector(cfg)
	if err != nil {
		return sqlDialer{}, fmt.Errorf("make a connector: %w", err)
	}
	return sqlDialer{connector: connector, textbook: order.Protocol == round.Textbook}, nil
}

func (d sqlDialer) dial(ctx context.Context, _ time.Time) (caller, error) {
	conn, err := d.connector.Connect(ctx)
	if err != nil {
		return nil, err
	}
	queryer, ok := conn.(driver.QueryerContext)
	if !ok {
		return nil, errors.New("the driver cannot query without a statement")
	}
	return &sqlCaller{conn: conn, queryer: queryer, textbook: d.textbook, row: make([]driver.Value, 0, 16)}, nil
}

type sqlCaller struct {
	conn     driver.Conn
	queryer  driver.QueryerContext
	textbook bool
	row      []driver.Value
	json     []byte
}

func (c *sqlCaller) close() { _ = c.conn.Close() }

// ask calls check_velocity. Several buckets are one check of the batch form, and
// for the textbook, which knows no such thing, as many calls; blocked is then
// what any of them says.
func (c *sqlCaller) ask(_ context.Context, buckets []bucket) (blocked bool, retried int, err error) {
	if len(buckets) > 1 && !c.textbook {
		c.json = append(serviceLanguage{}.appendBody(append(c.json[:0], '['), buckets), ']')
		return c.call("CALL check_velocity_batch(?)", 3, string(c.json))
	}
	for _, b := range buckets {
		one, again, err := c.call("CALL check_velocity(?, ?)", 0, int64(b.zone), string(b.key))
		retried += again
		if err != nil {
			return false, retried, err
		}
		blocked = blocked || one
	}
	return blocked, retried, nil
}

// call repeats a call that met a deadlock, as its callers would have to.
func (c *sqlCaller) call(query string, column int, values ...driver.Value) (blocked bool, retried int, err error) {
	args := make([]driver.NamedValue, len(values))
	for i, v := range values {
		args[i] = driver.NamedValue{Ordinal: i + 1, Value: v}
	}
	for ; ; retried++ {
		blocked, err = c.once(query, column, args)
		var engine *mysql.MySQLError
		if !errors.As(err, &engine) || engine.Number != errDeadlock || retried == maxRetries {
			return blocked, retried, err
		}
	}
}

// once sends one call and reads all that it answers. It has no context, whose
// watcher would cost more than the call; the connection has a read timeout.
func (c *sqlCaller) once(query string, column int, args []driver.NamedValue) (blocked bool, err error) {
	rows, err := c.queryer.QueryContext(context.Background(), query, args)
	if err != nil {
		return false, err
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	c.row = c.row[:len(rows.Columns())]
	answers := 0
	for ; ; answers++ {
		switch err := rows.Next(c.row); {
		case errors.Is(err, io.EOF) && answers == 0:
			return false, errors.New("the call answered nothing")
		case errors.Is(err, io.EOF):
			return blocked, nil
		case err != nil:
			return false, err
		}
		says, err := truth(c.row[column])
		if err != nil {
			return false, err
		}
		blocked = blocked || says
	}
}

// truth reads a BOOLEAN, which the drivers's versions hand out differently.
func truth(v driver.Value) (bool, error) {
	switch v := v.(type) {
	case int64:
		return v != 0, nil
	case []byte:
		return len(v) != 1 || v[0] != '0', nil
	}
	return false, fmt.Errorf("blocked is a %T", v)
}
