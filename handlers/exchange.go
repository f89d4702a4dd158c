package handlers

import (
	"fmt"
	"log/slog"
	"net/http"
	"runtime/debug"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/labstack/echo/v4"

	"velocityd/api"
	"velocityd/service"
)

// Names of header fields as net/http keeps them, so that they can be set without
// a look at each of their letters.
const (
	fieldCacheControl    = "Cache-Control"
	fieldContentLength   = "Content-Length"
	fieldContentType     = "Content-Type"
	fieldRateLimit       = "Ratelimit"
	fieldRateLimitPolicy = "Ratelimit-Policy"
	fieldRequestID       = "X-Request-Id"
	fieldRetryAfter      = "Retry-After"
)

// maxRequestID bounds the ids that callers give their requests.
const maxRequestID = 64

// exchange is one request and its answer, with what its log line will say.
type exchange struct {
	echo.Context
	id        string
	checks    []service.Check
	decisions []service.Decision
	keys      []string    // named besides those of checks, and never to be logged
	attrs     []slog.Attr // said by handlers
	place     *time.Timer // gives the place back that a large body has; nil if it has none
	giveBack  func()      // what place does
	// fields are the values of the answer's header, in memory of the exchange: room.
	fields []string
	room   [mostFields]string
}

// mostFields is how many header fields an answer has at most. One more would cost
// an allocation, no more.
const mostFields = 8

// observe gives every request an id, turns errors and panics into answers, and
// has them logged. It never returns an error.
func (s *server) observe(next echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) error {
		began := time.Now()
		x := &exchange{Context: c, id: s.requestID(c.Request().Header.Get(fieldRequestID))}
		x.fields = x.room[:0]
		x.set(fieldRequestID, x.id)
		err := recovered(next, x)
		x.leavePlace(err)
		var said api.Problem
		if err != nil {
			said = refuse(x, err)
		}
		s.log(x, time.Since(began), said, err)
		return nil
	}
}

// requestID returns the caller's id if it is short and plain, or a new one: the
// instance's own name and a number.
func (s *server) requestID(given string) string {
	plain := func(r rune) bool {
		return r >= '0' && r <= '9' || r >= 'A' && r <= 'Z' || r >= 'a' && r <= 'z' ||
			r == '-' || r == '_' || r == '.'
	}
	if given == "" || len(given) > maxRequestID ||
		strings.ContainsFunc(given, func(r rune) bool { return !plain(r) }) {
		return s.name + "-" + strconv.FormatUint(s.requests.Add(1), 10)
	}
	return given
}

// panicked is the error of a handler that panicked.
type panicked struct {
	value any
	stack []byte
}

func (p *panicked) Error() string { return fmt.Sprintf("panic: %v", p.value) }
func (p *panicked) Unwrap() error { return api.ErrInternal }

func recovered(handle echo.HandlerFunc, x *exchange) (err error) {
	defer func() {
		if value := recover(); value != nil {
			err = &panicked{value: value, stack: debug.Stack()}
		}
	}()
	return handle(x)
}

// set gives the answer a header field. name must be one of the constants above.
func (x *exchange) set(name, value string) {
	i := len(x.fields)
	x.fields = append(x.fields, value)
	x.Response().Header()[name] = x.fields[i : i+1 : i+1]
}

// respondJSON answers with value. The error is one of encoding: a caller who
// has gone cannot be told anything.
func (x *exchange) respondJSON(status int, contentType string, value any) error {
	body, err := json.Marshal(value)
	if err != nil {
		return fmt.Errorf("encode answer: %w", err)
	}
	x.set(fieldCacheControl, "no-store")
	x.respond(status, contentType, body)
	return nil
}

// respond answers with body, or with its length alone for HEAD. Who is slow to read
// it keeps nobody else waiting for his place.
func (x *exchange) respond(status int, contentType string, body []byte) {
	x.leavePlace(nil)
	x.set(fieldContentType, contentType)
	x.set(fieldContentLength, strconv.Itoa(len(body)))
	x.Response().WriteHeader(status)
	if x.Request().Method != http.MethodHead {
		_, _ = x.Response().Write(body)
	}
}

// respondNothing answers that what was asked is done.
func (x *exchange) respondNothing() {
	x.set(fieldCacheControl, "no-store")
	x.Response().WriteHeader(http.StatusNoContent)
}
