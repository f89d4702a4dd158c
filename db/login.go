package db

import (
	"context"
	"database/sql/driver"
	"fmt"
	"sync"

	"github.com/go-sql-driver/mysql"

	"velocityd/service"
)

// login opens connections with the account of a DSN. If the engine refuses the account, it
// reads the DSN again: the password may have been changed.
type login struct {
	reread func() (string, error) // nil: the account never changes

	mu    sync.Mutex
	cfg   *mysql.Config
	inner driver.Connector // of cfg
}

func newLogin(cfg *mysql.Config, reread func() (string, error)) (*login, error) {
	inner, err := mysql.NewConnector(cfg)
	if err != nil {
		return nil, fmt.Errorf("%w: dsn: %w", service.ErrInvalid, err)
	}
	return &login{reread: reread, cfg: cfg, inner: inner}, nil
}

// connect opens a connection. After a refusal it tries once more, if there is another
// account or password by now.
func (l *login) connect(ctx context.Context) (driver.Conn, error) {
	l.mu.Lock()
	inner := l.inner
	l.mu.Unlock()
	conn, err := inner.Connect(ctx)
	if !RefusesAccount(err) || l.reread == nil {
		return conn, err
	}
	renewed, renewErr := l.renew(inner)
	switch {
	case renewErr != nil:
		return nil, fmt.Errorf("%w; read the dsn again: %w", err, renewErr)
	case renewed == nil:
		return nil, err
	}
	return renewed.Connect(ctx)
}

// renew reads the DSN again after refused was refused. It takes the user and the password of
// it, and nothing else. It returns nil if they are still the same.
func (l *login) renew(refused driver.Connector) (driver.Connector, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.inner != refused {
		return l.inner, nil // another connection has done it
	}
	dsn, err := l.reread()
	if err != nil {
		return nil, err
	}
	read, err := parseDSN(dsn)
	if err != nil {
		return nil, err
	}
	if read.User == l.cfg.User && read.Passwd == l.cfg.Passwd {
		return nil, nil //nolint:nilnil // there is nothing new
	}
	cfg := l.cfg.Clone()
	cfg.User, cfg.Passwd = read.User, read.Passwd
	inner, err := mysql.NewConnector(cfg)
	if err != nil {
		return nil, fmt.Errorf("%w: dsn: %w", service.ErrInvalid, err)
	}
	l.cfg, l.inner = cfg, inner
	return inner, nil
}
