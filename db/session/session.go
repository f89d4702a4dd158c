// Package session connects to the engines: it sets and proves each session, sends packets of
// statements and reads their answers, ends the sessions of callers that have gone, and says by error
// number what a fault means. It must not know zones, overrides or how a check is decided.
package session

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"maps"
	"net"
	"strconv"
	"strings"
	"time"

	"velocityd/internal/engine"
)

// DriverConn is all that database/sql can ask of the driver's connection.
type DriverConn interface {
	driver.Conn
	driver.ConnBeginTx
	driver.ConnPrepareContext
	driver.ExecerContext
	driver.QueryerContext
	driver.NamedValueChecker
	driver.Pinger
	driver.SessionResetter
	driver.Validator
}

// Conn is a session, with the known facts about the engine's side of it.
type Conn struct {
	DriverConn
	socket    net.Conn // of a connection for checks
	address   string   // of the server
	serverID  string   // its server_id: an address may lead to another server after a failover
	id        int64    // the server's, for KILL; 0 where there is no KILL
	since     time.Time
	Engine    engine.Engine
	Shards    *Shards
	IsMariaDB bool
	// BoundsEach says that each batch bounds by wait_timeout how long it may be silent. Elsewhere
	// the session has a bound for all its transactions.
	BoundsEach bool
	// MaxPacket is the longest packet that the engine takes, in bytes.
	MaxPacket int64
	// text is memory for the next packet of a batch, which the last one has left.
	text []byte
}

// prepare sets the session of a new connection and reads it back.
func (c *Connector) prepare(ctx context.Context, s *Conn) error {
	if err := c.meet(ctx, s); err != nil {
		return err
	}
	if s.Engine == engine.Vitess {
		return c.prepareVitess(ctx, s)
	}
	session := c.session
	if s.Engine == engine.TiDB {
		session = maps.Clone(session)
		session["completion_type"] = "'NO_CHAIN'" // TiDB keeps the very text
	}
	found, err := s.set(ctx, session, showVariables)
	if err != nil {
		return err
	}
	if err := s.read(found, c.wanted); err != nil {
		return err
	}
	s.IsMariaDB = strings.Contains(found["version"], "MariaDB")
	bound := silentBound(found["version"])
	if s.BoundsEach = bound == ""; s.BoundsEach {
		return nil
	}
	if _, err := s.ExecContext(ctx, bound, nil); err != nil {
		return fmt.Errorf("bound silent transactions: %w", err)
	}
	return nil
}

// meet finds out which engine the connection leads to. It asks only if it was neither told nor seen
// it before: settings that one engine needs another one refuses.
func (c *Connector) meet(ctx context.Context, s *Conn) error {
	of := c.database.Engine()
	if of == "" {
		var version, comment string
		if err := s.Each(ctx, 2, "SELECT @@version, @@version_comment", func(row []driver.Value) error {
			version, comment = Text(row[0]), Text(row[1])
			return nil
		}); err != nil {
			return fmt.Errorf("ask for the engine: %w", err)
		}
		of = c.database.saw(engine.Of(version, comment))
	}
	s.Engine, s.Shards, s.since = of, &c.database.Shards, time.Now()
	return nil
}

// set sets the variables of a session and its isolation level, and returns the answers of ask
// about variables then.
func (s *Conn) set(
	ctx context.Context, variables map[string]string, ask func(context.Context, *Conn) (map[string]string, error),
) (found map[string]string, err error) {
	var settings []string
	for name, value := range variables {
		settings = append(settings, name+" = "+value)
	}
	if _, err := s.ExecContext(ctx, "SET "+strings.Join(settings, ", "), nil); err != nil {
		return nil, fmt.Errorf("set session variables: %w", err)
	}
	// As a statement, because the variable is transaction_isolation on MySQL
	// and tx_isolation on MariaDB before 11.1.
	if _, err := s.ExecContext(ctx, "SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED", nil); err != nil {
		return nil, fmt.Errorf("set isolation level: %w", err)
	}
	if found, err = ask(ctx, s); err != nil {
		return nil, fmt.Errorf("read session variables: %w", err)
	}
	return found, nil
}

// errStaleCounts says that a TiDB server would count txns by an older state than that under the
// locks, so that buckets admit more than their rate.
var errStaleCounts = errors.New("tidb_rc_read_check_ts is ON on this TiDB server, by which it would count too few " +
	"txns: SET GLOBAL tidb_rc_read_check_ts = OFF, and take it out of the server's configuration")

// read looks whether the variables of a session are as they are wanted, and takes what the
// session is to know of the engine.
func (s *Conn) read(found, wanted map[string]string) (err error) {
	for name, want := range wanted {
		if !strings.Contains(found[name], want) {
			return fmt.Errorf("session variable %s is %q, must be %q: is a proxy or init_connect changing it?",
				name, found[name], want)
		}
	}
	if s.MaxPacket, err = strconv.ParseInt(found["max_allowed_packet"], 10, 64); err != nil {
		return fmt.Errorf("read max_allowed_packet: %w", err)
	}
	if found["tidb_rc_read_check_ts"] == "ON" {
		return errStaleCounts
	}
	if s.Engine == engine.TiDB {
		return nil // KILL may meet another session on another server, and TiDB sees that a client has gone
	}
	if s.id, err = strconv.ParseInt(found["pseudo_thread_id"], 10, 64); err != nil {
		return fmt.Errorf("read the connection's id: %w", err)
	}
	s.serverID = found["server_id"]
	return nil
}

// showVariables returns the pinned variables and those that a session is to know of the
// engine, by the names that variable gives them.
func showVariables(ctx context.Context, s *Conn) (map[string]string, error) {
	found := map[string]string{}
	return found, s.Each(ctx, 2, `
SHOW SESSION VARIABLES
WHERE Variable_name IN ('sql_mode', 'time_zone', 'innodb_lock_wait_timeout', 'eq_range_index_dive_limit', 'autocommit',
                        'completion_type', 'sql_select_limit', 'character_set_client', 'character_set_results',
                        'transaction_isolation', 'tx_isolation', 'version', 'version_comment', 'max_allowed_packet',
                        'pseudo_thread_id', 'server_id', 'tidb_rc_read_check_ts')`, func(row []driver.Value) error {
		name, value := Variable(row)
		found[name] = value
		return nil
	})
}

// Variable reads a row of SHOW VARIABLES. The isolation level has the name "isolation" on all engines.
func Variable(row []driver.Value) (name, value string) {
	name = strings.ToLower(Text(row[0]))
	if name == "transaction_isolation" || name == "tx_isolation" {
		name = "isolation"
	}
	return name, Text(row[1])
}
