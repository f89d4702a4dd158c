package db

import (
	"cmp"
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"maps"
	"strings"
	"time"

	"github.com/go-sql-driver/mysql"

	"velocityd/service"
)

// sqlMode makes the engine refuse what it would otherwise cut or bend.
const sqlMode = "STRICT_ALL_TABLES,ONLY_FULL_GROUP_BY,ERROR_FOR_DIVISION_BY_ZERO,NO_ENGINE_SUBSTITUTION"

// connector opens connections whose session is pinned and then read back, so
// that a proxy or an init_connect that bends it is found at once.
type connector struct {
	driver.Connector
	timeout time.Duration     // of one connect
	wanted  map[string]string // session variable → value, or part of it
}

func newConnector(o Options) (*connector, error) {
	cfg, err := parseDSN(o.DSN)
	if err != nil {
		return nil, err
	}
	if o.LockWait < time.Second || o.LockWait%time.Second != 0 {
		return nil, fmt.Errorf("%w: lock wait must be whole seconds, is %s", service.ErrInvalid, o.LockWait)
	}
	seconds := fmt.Sprint(int(o.LockWait / time.Second))
	pin(cfg, map[string]string{
		"sql_mode":                 "'" + sqlMode + "'",
		"time_zone":                "'+00:00'",
		"innodb_lock_wait_timeout": seconds,
	})
	inner, err := mysql.NewConnector(cfg)
	if err != nil {
		return nil, fmt.Errorf("%w: dsn: %w", service.ErrInvalid, err)
	}
	return &connector{Connector: inner, timeout: cmp.Or(o.connectTimeout, connectTimeout), wanted: map[string]string{
		"sql_mode":                 "STRICT_ALL_TABLES",
		"time_zone":                "+00:00",
		"innodb_lock_wait_timeout": seconds,
		"isolation":                "READ-COMMITTED",
		"autocommit":               "ON",
	}}, nil
}

// pin edits a parsed DSN; what the SQL relies on is not for the DSN to choose.
func pin(cfg *mysql.Config, session map[string]string) {
	cfg.ParseTime = true
	cfg.Loc = time.UTC
	// One round trip a statement instead of prepare, execute, close.
	cfg.InterpolateParams = true
	// After a failover the old primary is read-only: leave it.
	cfg.RejectReadOnly = true
	// Never on a serving pool: it widens any injection.
	cfg.MultiStatements = false
	cfg.AllowAllFiles = false
	// What the driver would log it also returns, and here nothing is told twice.
	cfg.Logger = &mysql.NopLogger{}
	if cfg.Timeout == 0 {
		cfg.Timeout = dialTimeout
	}
	// For what no context watches; every check and look-up has a shorter deadline.
	if cfg.ReadTimeout == 0 {
		cfg.ReadTimeout = silenceTimeout
	}
	if cfg.Params == nil {
		cfg.Params = map[string]string{}
	}
	maps.Copy(cfg.Params, session)
}

// Connect opens one connection and proves its session.
func (c *connector) Connect(ctx context.Context) (driver.Conn, error) {
	// database/sql also connects in the background, without a deadline, and one
	// handshake that is never answered would hold up all others.
	ctx, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()
	conn, err := c.Connector.Connect(ctx)
	if err != nil {
		return nil, err
	}
	session, ok := conn.(statements)
	if !ok {
		return nil, errors.Join(errors.New("the driver's connection takes no statements"), conn.Close())
	}
	if err := c.prepare(ctx, session); err != nil {
		_ = conn.Close() // the first error says more
		return nil, err
	}
	return conn, nil
}

// statements is what a driver's connection does without a pool.
type statements interface {
	driver.ExecerContext
	driver.QueryerContext
}

func (c *connector) prepare(ctx context.Context, conn statements) error {
	// As a statement, because the variable is transaction_isolation on MySQL
	// and tx_isolation on MariaDB before 11.1.
	_, err := conn.ExecContext(ctx,
		"SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED", nil)
	if err != nil {
		return fmt.Errorf("set isolation level: %w", err)
	}
	found, err := sessionVariables(ctx, conn)
	if err != nil {
		return fmt.Errorf("read session variables: %w", err)
	}
	for name, want := range c.wanted {
		if !strings.Contains(found[name], want) {
			return fmt.Errorf("session variable %s is %q, must be %q: is a proxy or init_connect changing it?",
				name, found[name], want)
		}
	}
	return nil
}

// sessionVariables returns the pinned variables, the isolation level under the
// one name "isolation".
func sessionVariables(ctx context.Context, conn statements) (map[string]string, error) {
	rows, err := conn.QueryContext(ctx, `
SHOW SESSION VARIABLES
WHERE Variable_name IN ('sql_mode', 'time_zone', 'innodb_lock_wait_timeout', 'autocommit',
                        'transaction_isolation', 'tx_isolation')`, nil)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	found := map[string]string{}
	row := make([]driver.Value, 2)
	for {
		err := rows.Next(row)
		switch {
		case err == nil:
			name := strings.ToLower(text(row[0]))
			if name == "transaction_isolation" || name == "tx_isolation" {
				name = "isolation"
			}
			found[name] = text(row[1])
		case errors.Is(err, io.EOF):
			return found, nil
		default:
			return nil, err
		}
	}
}

// text is a driver value of a character column.
func text(value driver.Value) string {
	if raw, ok := value.([]byte); ok {
		return string(raw)
	}
	return fmt.Sprint(value)
}
