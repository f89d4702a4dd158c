package handlers

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/labstack/echo/v4"

	"velocityd/service"
)

// Bounds of what callers can write into the log.
const (
	maxLoggedZones  = 16
	maxLoggedMethod = 16
	maxRequestID    = 64
)

// exchange is one request and its answer, with what its log line will say.
type exchange struct {
	echo.Context
	id        string
	checks    []service.Check
	decisions []service.Decision
	keys      []string    // named besides those of checks, and never to be logged
	attrs     []slog.Attr // said by handlers
}

// observe gives every request an id, turns errors and panics into answers, and
// writes the one log line. It never returns an error.
func (s *server) observe(next echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) error {
		began := time.Now()
		x := &exchange{Context: c, id: requestID(c.Request().Header.Get(echo.HeaderXRequestID))}
		c.Response().Header().Set(echo.HeaderXRequestID, x.id)
		err := recovered(next, x)
		var said problem
		if err != nil {
			said = refuse(x, err)
		}
		s.log(x, time.Since(began), said, err)
		return nil
	}
}

// requestID returns the caller's id if it is short and plain, or a new one.
func requestID(given string) string {
	plain := func(r rune) bool {
		return r >= '0' && r <= '9' || r >= 'A' && r <= 'Z' || r >= 'a' && r <= 'z' ||
			r == '-' || r == '_' || r == '.'
	}
	if given == "" || len(given) > maxRequestID ||
		strings.ContainsFunc(given, func(r rune) bool { return !plain(r) }) {
		return rand.Text()
	}
	return given
}

// panicked is the error of a handler that panicked.
type panicked struct {
	value any
	stack []byte
}

func (p *panicked) Error() string { return fmt.Sprintf("panic: %v", p.value) }
func (p *panicked) Unwrap() error { return errFault }

func recovered(handle echo.HandlerFunc, x *exchange) (err error) {
	defer func() {
		if value := recover(); value != nil {
			err = &panicked{value: value, stack: debug.Stack()}
		}
	}()
	return handle(x)
}

// respondJSON answers with value. The error is one of encoding: a caller who
// has gone cannot be told anything.
func (x *exchange) respondJSON(status int, contentType string, value any) error {
	body, err := json.Marshal(value)
	if err != nil {
		return fmt.Errorf("encode answer: %w", err)
	}
	x.Response().Header().Set("Cache-Control", "no-store")
	x.respond(status, contentType, body)
	return nil
}

// respond answers with body, or with its length alone for HEAD.
func (x *exchange) respond(status int, contentType string, body []byte) {
	header := x.Response().Header()
	header.Set("Content-Type", contentType)
	header.Set("Content-Length", strconv.Itoa(len(body)))
	x.Response().WriteHeader(status)
	if x.Request().Method != http.MethodHead {
		_, _ = x.Response().Write(body)
	}
}

// respondNothing answers that what was asked is done.
func (x *exchange) respondNothing() {
	x.Response().Header().Set("Cache-Control", "no-store")
	x.Response().WriteHeader(http.StatusNoContent)
}

// log writes the request's line: never a bucket key, a query, or a raw path.
func (s *server) log(x *exchange, took time.Duration, said problem, err error) {
	ctx, level := x.Request().Context(), logLevel(x, err)
	if !s.logger.Enabled(ctx, level) {
		return
	}
	method := x.Request().Method
	attrs := append(make([]slog.Attr, 0, 16),
		slog.String("method", method[:min(len(method), maxLoggedMethod)]),
		slog.String("route", x.Path()), // the template; empty if none fits
		slog.Int("status", x.Response().Status),
		slog.Duration("duration", took),
		slog.Int64("bytes", x.Response().Size),
		slog.String("request_id", x.id))
	attrs = append(attrs, x.attrs...)
	attrs = x.appendChecks(attrs)
	if err != nil {
		attrs = append(attrs, slog.String("code", said.Code))
	}
	if said.Status >= 500 || said.Status == http.StatusForbidden {
		attrs = append(attrs, slog.String("error", x.loggable(err)))
	}
	var p *panicked
	if errors.As(err, &p) {
		attrs = append(attrs, slog.String("stack", string(p.stack)))
	}
	s.logger.LogAttrs(ctx, level, "request", attrs...)
}

func logLevel(x *exchange, err error) slog.Level {
	switch {
	case x.Path() == pathLive || x.Path() == pathReady:
		return slog.LevelDebug
	case x.Response().Status == http.StatusForbidden: // it is the service that lacks a right
		return slog.LevelError
	case x.Response().Status < 500 || errors.Is(err, context.Canceled): // the caller left
		return slog.LevelInfo
	default:
		return slog.LevelError
	}
}

// appendChecks says what was asked and decided.
func (x *exchange) appendChecks(attrs []slog.Attr) []slog.Attr {
	if len(x.checks) == 0 {
		return attrs
	}
	attrs = append(attrs, slog.Any("zone_ids", x.zoneIDs()))
	if len(x.checks) == 1 && len(x.decisions) == 1 && x.decisions[0].Err == nil {
		return append(attrs, slog.Uint64("txn_id", x.decisions[0].TxnID()), slog.Bool("blocked", x.decisions[0].Blocked))
	}
	if len(x.checks) == 1 {
		return attrs
	}
	blocked, refused := 0, 0
	for _, d := range x.decisions {
		if d.Blocked {
			blocked++
		}
		if d.Err != nil {
			refused++
		}
	}
	return append(attrs, slog.Int("checks", len(x.checks)),
		slog.Int("blocked_checks", blocked), slog.Int("refused_checks", refused))
}

// zoneIDs returns the first zones that were asked about, each once.
func (x *exchange) zoneIDs() []int64 {
	ids := make([]int64, 0, 2)
	for _, check := range x.checks {
		for _, b := range check.Buckets {
			if len(ids) < maxLoggedZones && !slices.Contains(ids, b.ZoneID) {
				ids = append(ids, b.ZoneID)
			}
		}
	}
	return ids
}
