package session

import (
	"context"
	"database/sql/driver"
	"fmt"
	"sync"

	"github.com/go-sql-driver/mysql"

	"velocityd/internal/address"
	"velocityd/service"
)

// login opens connections with the account of a DSN. If the engine refuses the account, it
// reads the DSN again: the password may have been changed.
type login struct {
	reread func() (string, error) // nil: the account never changes

	mu      sync.Mutex
	configs []*mysql.Config    // one for each address
	inner   *address.Connector // of configs
}

func newLogin(configs []*mysql.Config, reread func() (string, error)) (*login, error) {
	inner, err := address.NewConnector(configs)
	if err != nil {
		return nil, fmt.Errorf("%w: dsn: %w", service.ErrInvalid, err)
	}
	return &login{reread: reread, configs: configs, inner: inner}, nil
}

// connect opens a connection and prepares its session. After a refusal it tries once more, if
// there is another account or password by now. MariaDB lets an account with an expired password
// in, and refuses its first statement.
func (l *login) connect(ctx context.Context, prepare func(driver.Conn) error) (driver.Conn, error) {
	l.mu.Lock()
	inner := l.inner
	l.mu.Unlock()
	conn, err := inner.ConnectTo(ctx, prepare)
	if !RefusesAccount(err) || l.reread == nil {
		return conn, err
	}
	renewed, renewErr := l.renew(inner)
	switch {
	case renewErr != nil:
		return nil, fmt.Errorf("%w; read the dsn again: %s", err, renewErr.Error()) // not that kind of error
	case renewed == nil:
		return nil, err
	}
	return renewed.ConnectTo(ctx, prepare)
}

// renew reads the DSN again after refused was refused. It takes the user and the password of
// it, and nothing else. It returns nil if they are still the same.
func (l *login) renew(refused *address.Connector) (*address.Connector, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.inner != refused {
		return l.inner, nil // another connection has done it
	}
	dsn, err := l.reread()
	if err != nil {
		return nil, err
	}
	read, err := ParseDSN(dsn)
	if err != nil {
		return nil, err
	}
	user, password := read[0].User, read[0].Passwd
	if user == l.configs[0].User && password == l.configs[0].Passwd {
		return nil, nil //nolint:nilnil // there is nothing new
	}
	configs := make([]*mysql.Config, len(l.configs))
	for i, cfg := range l.configs {
		configs[i] = cfg.Clone()
		configs[i].User, configs[i].Passwd = user, password
	}
	inner, err := address.NewConnector(configs)
	if err != nil {
		return nil, fmt.Errorf("%w: dsn: %w", service.ErrInvalid, err)
	}
	l.configs, l.inner = configs, inner
	return inner, nil
}
