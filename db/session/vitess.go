package session

import (
	"context"
	"database/sql/driver"
	"fmt"
	"strings"
	"time"

	"velocityd/internal/engine"
)

// prepareVitess sets the session of a connection to vtgate and reads it back. vtgate passes
// settings on to the tablets' connections, one by one with each transaction. It knows no SHOW
// VARIABLES of them, and some variables of MySQL's neither.
func (c *Connector) prepareVitess(ctx context.Context, s *Conn) error {
	session := map[string]string{}
	for name, value := range c.session {
		switch name {
		case "character_set_client", "character_set_connection", "character_set_results", "completion_type",
			"sql_select_limit", "lock_wait_timeout":
			// They are those of the tablets' own connections, which vtgate does not change.
		default:
			session[name] = value
		}
	}
	// In milliseconds.
	session["transaction_timeout"] = fmt.Sprint(c.transactionLife().Milliseconds())
	session["query_timeout"] = fmt.Sprint(c.statementLife().Milliseconds())
	// A vtgate that is told to keep a transaction on one shard refuses a batch over several.
	session["transaction_mode"] = "'MULTI'"
	found, err := s.set(ctx, session, selectVariables)
	if err != nil {
		return err
	}
	wanted := map[string]string{
		"transaction_timeout": session["transaction_timeout"], "query_timeout": session["query_timeout"], "autocommit": "1",
		"transaction_mode": "MULTI",
	}
	for _, name := range []string{
		"sql_mode", "time_zone", "innodb_lock_wait_timeout", "eq_range_index_dive_limit",
		"isolation",
	} {
		wanted[name] = c.wanted[name]
	}
	if err := s.read(found, wanted); err != nil {
		return err
	}
	s.MaxPacket = min(s.MaxPacket, longestToTablet)
	if err := s.refuseSharded(ctx); err != nil {
		return err
	}
	// Without a keyspace vtgate finds each table by its name, wherever it lies.
	if _, err := s.ExecContext(ctx, UseNoKeyspace, nil); err != nil {
		return fmt.Errorf("leave the keyspace: %w", err)
	}
	return nil
}

// refuseSharded returns engine.ErrSharded if vtgate calls the DSN's keyspace sharded.
func (s *Conn) refuseSharded(ctx context.Context) error {
	name := strings.TrimSuffix(s.Shards.Keyspace, engine.BucketsSuffix)
	return s.Each(ctx, 2, "SHOW VSCHEMA KEYSPACES", func(row []driver.Value) error {
		if Text(row[0]) == name && Text(row[1]) == "true" {
			return engine.ErrSharded
		}
		return nil
	})
}

// UseNoKeyspace lets a session name tables of all keyspaces.
const UseNoKeyspace = "USE `@primary`"

// longestToTablet is how long a packet to vtgate may be: it sends statements on in messages of
// at most 16 MiB, and a statement grows on its way.
const longestToTablet = 4 << 20

// statementLife is how long vtgate lets a statement take: one that waits for a lock ends by the
// lock wait, which engines look at once a second, and one that waits for a shard that is away
// ends by this.
func (c *Connector) statementLife() time.Duration { return c.lockWait + 1500*time.Millisecond }

// transactionLife is how long a tablet lets a transaction live. A batch may wait for a bucket
// on one shard while it holds those of another one.
func (c *Connector) transactionLife() time.Duration { return 2*c.lockWait + SilentTx*time.Second }

// selectVariables returns the variables of a session of vtgate.
func selectVariables(ctx context.Context, s *Conn) (map[string]string, error) {
	asked := map[string]string{
		"sql_mode": "@@sql_mode", "time_zone": "@@time_zone", "innodb_lock_wait_timeout": "@@innodb_lock_wait_timeout",
		"eq_range_index_dive_limit": "@@eq_range_index_dive_limit", "isolation": "@@transaction_isolation",
		"autocommit": "@@autocommit", "transaction_timeout": "@@transaction_timeout", "query_timeout": "@@query_timeout",
		"transaction_mode": "@@transaction_mode",
		"version":          "@@version", "max_allowed_packet": "@@max_allowed_packet", "pseudo_thread_id": "CONNECTION_ID()",
	}
	var names, expressions []string
	for name, expression := range asked {
		names, expressions = append(names, name), append(expressions, expression)
	}
	found := map[string]string{}
	return found, s.Each(ctx, len(names), "SELECT "+strings.Join(expressions, ", "), func(row []driver.Value) error {
		for i, name := range names {
			found[name] = strings.ToUpper(Text(row[i]))
		}
		return nil
	})
}
