// Package address reads a DSN that names several addresses, and connects to them in turn. It must not know
// the use of a connection.
package address

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/go-sql-driver/mysql"
)

// Split returns a DSN for each address that dsn names, such as the two of
// user:password@tcp(host1:3306,host2:3306)/database, or dsn itself if it names one. It does NOT
// look whether any of them can be read. The driver would read the whole list as one name.
func Split(dsn string) []string {
	first, last := bounds(dsn)
	if first < 0 {
		return []string{dsn}
	}
	list := strings.Split(dsn[first:last], ",")
	for i, address := range list {
		list[i] = dsn[:first] + strings.TrimSpace(address) + dsn[last:]
	}
	return list
}

// bounds returns where the addresses of a DSN begin and end, or -1 if it names no TCP address.
// It looks for them as the driver does.
func bounds(dsn string) (first, last int) {
	slash := strings.LastIndex(dsn, "/")
	if slash < 1 || dsn[slash-1] != ')' {
		return -1, -1
	}
	begin := strings.LastIndex(dsn[:slash], "@") + 1
	network, _, found := strings.Cut(dsn[begin:slash], "(")
	if !found || !slices.Contains([]string{"tcp", "tcp4", "tcp6"}, network) {
		return -1, -1
	}
	return begin + len(network) + 1, slash - 1
}

// Connector connects to one of several addresses.
type Connector struct {
	inner []driver.Connector
	next  atomic.Uint32 // where the next connection is tried first
	// failed is the time of the last failure of each address, as Unix time in nanoseconds.
	failed []atomic.Int64
}

var _ driver.Connector = (*Connector)(nil)

// An address that failed is tried after the others for failedLife.
const failedLife = 10 * time.Second

// NewConnector returns a connector for configurations that differ in their addresses. It
// connects to nothing yet.
func NewConnector(configs []*mysql.Config) (*Connector, error) {
	c := &Connector{inner: make([]driver.Connector, len(configs)), failed: make([]atomic.Int64, len(configs))}
	for i, cfg := range configs {
		inner, err := mysql.NewConnector(cfg)
		if err != nil {
			return nil, err
		}
		c.inner[i] = inner
	}
	c.next.Store(rand.Uint32N(uint32(len(configs))))
	return c, nil
}

// Driver implements driver.Connector.
func (c *Connector) Driver() driver.Driver { return mysql.MySQLDriver{} }

// Connect connects to the addresses in turn. It goes on to the next one if an address cannot be
// reached or says nothing in its share of the time that is left, and not if a server there refuses
// the account or a setting.
func (c *Connector) Connect(ctx context.Context) (driver.Conn, error) {
	return c.ConnectTo(ctx, func(driver.Conn) error { return nil })
}

// ErrElsewhere says that an address leads to another database than the others.
var ErrElsewhere = errors.New("the address leads elsewhere")

// ConnectTo is Connect, and calls prepare with each new connection. If the error of that wraps
// ErrElsewhere, it goes on to the next address as if this one could not be reached.
func (c *Connector) ConnectTo(ctx context.Context, prepare func(driver.Conn) error) (driver.Conn, error) {
	if len(c.inner) == 1 {
		return connect(ctx, c.inner[0], prepare)
	}
	var unreached []error
	order := c.order(time.Now())
	for k, i := range order {
		conn, err := connectWithin(ctx, c.inner[i], len(order)-k, prepare)
		var engine *mysql.MySQLError
		if err == nil || errors.As(err, &engine) && !errors.Is(err, ErrElsewhere) {
			return conn, err
		}
		c.failed[i].Store(time.Now().UnixNano())
		unreached = append(unreached, err)
		if ctx.Err() != nil {
			break
		}
	}
	return nil, fmt.Errorf("%d of %d addresses: %w", len(unreached), len(c.inner), errors.Join(unreached...))
}

// connectWithin connects in one of several equal parts of the time that ctx has left.
func connectWithin(
	ctx context.Context, to driver.Connector, parts int, prepare func(driver.Conn) error,
) (driver.Conn, error) {
	if deadline, limited := ctx.Deadline(); limited {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, time.Until(deadline)/time.Duration(parts))
		defer cancel()
	}
	return connect(ctx, to, prepare)
}

// connect connects to one address, and closes the connection if it cannot be prepared.
func connect(ctx context.Context, to driver.Connector, prepare func(driver.Conn) error) (driver.Conn, error) {
	conn, err := to.Connect(ctx)
	if err != nil {
		return nil, err
	}
	if err := prepare(conn); err != nil {
		_ = conn.Close() // the first error says more
		return nil, err
	}
	return conn, nil
}

// order returns the places of all addresses: first those that were not found away lately.
func (c *Connector) order(now time.Time) []int {
	first := int(c.next.Add(1))
	var order, away []int
	for k := range c.inner {
		i := (first + k) % len(c.inner)
		if now.UnixNano()-c.failed[i].Load() < int64(failedLife) {
			away = append(away, i)
		} else {
			order = append(order, i)
		}
	}
	return append(order, away...)
}
