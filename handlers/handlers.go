// Package handlers owns HTTP: routes, decoding, encoding, status codes, headers
// and the request log. It is the only room that knows Echo, and must not know
// SQL, any engine, or how a check is decided.
package handlers

import (
	"context"
	"log/slog"
	"net/http"
	"time"

	"github.com/labstack/echo/v4"

	"velocityd/service"
)

// DefaultReadTimeout is how long a look-up of zones or txns may take if
// Options.ReadTimeout is 0.
const DefaultReadTimeout = 2 * time.Second

// Reader answers the look-ups. Zone and Txn return an error that wraps
// service.ErrNotFound for an id that does not exist; every method may return
// one that wraps service.ErrBusy.
type Reader interface {
	Zones(ctx context.Context) ([]service.Zone, error)
	Zone(ctx context.Context, id int64) (service.Zone, error)
	Txn(ctx context.Context, id uint64) (service.Txn, error)
}

// Options is what New needs. Limiter and Reader are required.
type Options struct {
	Limiter *service.Limiter
	Reader  Reader
	// Ready returns nil if the service can decide checks now, and otherwise the
	// reason, which callers of /readyz are shown: it must not hold secrets. It
	// is given two seconds. Nil means always ready.
	Ready func(ctx context.Context) error
	// Logger gets one line for each request. Nil means no log.
	Logger *slog.Logger
	// ReadTimeout is the deadline of each look-up; 0 means DefaultReadTimeout.
	// Checks have the deadline of the Limiter instead.
	ReadTimeout time.Duration
}

// New returns the whole HTTP interface of the service. It starts nothing and
// sets no limits of the connection: read, write and idle timeouts are those of
// the http.Server that it is given to.
func New(o Options) http.Handler { return newEcho(o) }

// server is the interface's state, shared by all requests and never changed.
type server struct {
	limiter     *service.Limiter
	reader      Reader
	ready       func(ctx context.Context) error
	logger      *slog.Logger
	readTimeout time.Duration
	decoder     decoder
}

func newEcho(o Options) *echo.Echo {
	s := &server{
		limiter: o.Limiter, reader: o.Reader, ready: o.Ready, logger: o.Logger,
		readTimeout: o.ReadTimeout, decoder: newDecoder(),
	}
	if s.ready == nil {
		s.ready = func(context.Context) error { return nil }
	}
	if s.logger == nil {
		s.logger = slog.New(slog.DiscardHandler)
	}
	if s.readTimeout == 0 {
		s.readTimeout = DefaultReadTimeout
	}
	e := echo.New()
	e.Use(s.observe)
	post(e, "/v1/check", s.postCheck)
	post(e, "/v1/checks", s.postChecks)
	get(e, "/v1/zones", s.listZones)
	get(e, "/v1/zones/:id", s.showZone)
	get(e, "/v1/txns/:id", s.showTxn)
	get(e, pathLive, s.live)
	get(e, pathReady, s.answerReady)
	get(e, "/openapi.yaml", s.describe)
	return e
}

func post(e *echo.Echo, path string, handle func(*exchange) error) {
	e.POST(path, func(c echo.Context) error { return handle(c.(*exchange)) }) //nolint:errcheck // the first middleware makes every context one
}

// get answers HEAD as well: exchange.respond leaves the body out.
func get(e *echo.Echo, path string, handle func(*exchange) error) {
	adapted := func(c echo.Context) error { return handle(c.(*exchange)) } //nolint:errcheck // as in post
	e.GET(path, adapted)
	e.HEAD(path, adapted)
}
