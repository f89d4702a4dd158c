package handlers

import (
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/labstack/echo/v4"

	"velocityd/api"
	"velocityd/handlers/admission"
	"velocityd/handlers/problem"
	"velocityd/handlers/wire"
	"velocityd/service"
)

// Names of header fields in the canonical form of net/http. They go into the header's
// map as they are, which saves making them canonical for each answer.
const (
	fieldCacheControl    = "Cache-Control"
	fieldConnection      = "Connection"
	fieldContentLength   = "Content-Length"
	fieldContentType     = "Content-Type"
	fieldRateLimit       = "Ratelimit"
	fieldRateLimitPolicy = "Ratelimit-Policy"
	fieldRequestID       = "X-Request-Id"
	fieldRetryAfter      = "Retry-After"
)

// maxRequestID bounds the ids that callers give their requests.
const maxRequestID = 64

// exchange is one request and its answer, with the parts of its log line.
type exchange struct {
	echo.Context
	id        string
	caller    admission.Caller
	template  string            // of the path by a mounted handler; "" if none has answered
	logged    admission.Request // for the log
	attrs     []slog.Attr       // attributes of the log line that the handler has added
	slotTimer *time.Timer       // gives the slot of a large body back in time; nil without a slot
	freeSlot  func()            // gives the slot back at once
	server    *server
	shareKey  string // see shareKeyOf
	bodyBytes int    // of the body or the answer, counted in memory
	isBroken  bool   // the answer has broken off, and only the end of its connection can say so
	// fields are the values of the answer's header. They lie in room, which belongs to
	// the exchange, so that they need no allocation.
	fields []string
	room   [mostFields]string
}

// mostFields is how many header fields fit in room. More of them work as well, and
// cost an allocation.
const mostFields = 8

// observe gives every request an id, turns errors and panics into answers, and
// writes the log. It never returns an error. It panics with http.ErrAbortHandler behind an answer that is broken.
func (s *server) observe(next echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) error {
		began := time.Now()
		x := &exchange{Context: c, id: s.requestID(c.Request().Header.Get(fieldRequestID)), server: s}
		x.fields = x.room[:0]
		x.set(fieldRequestID, x.id)
		err := s.recovered(next, x)
		x.releaseSlot(err)
		x.releaseMemory()
		var answer api.Problem
		if err != nil {
			answer = refuse(x, err)
		}
		s.log(x, time.Since(began), answer, err)
		if s.Observe != nil {
			s.Observe(c.Request().Context(), Observed{
				Method: c.Request().Method, Route: x.route(), Status: c.Response().Status, Refused: x.uncountedRefusal(answer),
				Err: problem.Cause(err),
			})
		}
		if x.isBroken {
			panic(http.ErrAbortHandler) // net/http ends the connection in the middle of the answer, and logs nothing
		}
		return nil
	}
}

// requestID returns the caller's id if it is short and has only letters, digits and
// "-", "_" or ".". Otherwise it returns a new one: the instance's name and a number.
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

// Error returns the text of the runtime. Any other value may hold a bucket key: its type and the
// stack have to do.
func (p *panicked) Error() string {
	if fault, ok := p.value.(runtime.Error); ok {
		return "panic: " + fault.Error()
	}
	return fmt.Sprintf("panic: a value of type %T", p.value)
}

func (p *panicked) Unwrap() error { return api.ErrInternal }

// recovered calls handle for a request that is admitted. A panic is an error.
func (s *server) recovered(handle echo.HandlerFunc, x *exchange) (err error) {
	defer func() {
		if value := recover(); value != nil {
			err = &panicked{value: value, stack: debug.Stack()}
		}
	}()
	if err = s.admit(x); err == nil {
		err = ofRouter(handle(x))
	}
	if isGate(x.Path()) {
		err = problem.AtGate(err)
	}
	return err
}

// ofRouter returns err, or the kind of the table that an error of Echo's router stands for.
func ofRouter(err error) error {
	switch {
	case errors.Is(err, echo.ErrMethodNotAllowed):
		return api.ErrNoMethod
	case errors.Is(err, echo.ErrNotFound):
		return api.ErrNoRoute
	}
	return err
}

// set gives the answer a header field. name must be in the canonical form of
// net/http, as the constants field… are.
func (x *exchange) set(name, value string) {
	i := len(x.fields)
	x.fields = append(x.fields, value)
	x.Response().Header()[name] = x.fields[i : i+1 : i+1]
}

// respondJSON answers with value. It returns an error if value cannot be encoded, or if
// there is no memory for the answer of a look-up, and none if the caller has gone.
func (x *exchange) respondJSON(status int, contentType string, value any) error {
	body, err := json.Marshal(value)
	if err != nil {
		return fmt.Errorf("encode answer: %w", err)
	}
	if x.Request().Method == http.MethodGet { // others may have changed something, and took the memory before
		if err := x.takeMemory(int64(len(body))); err != nil {
			return err
		}
	}
	x.set(fieldCacheControl, "no-store")
	x.respond(status, contentType, body)
	return nil
}

// respond answers with body, or with its length alone for HEAD. It gives the slot of
// the request back first, so that a caller that reads slowly does not keep it. It must not
// be given a copy of a body that is the same for all requests.
func (x *exchange) respond(status int, contentType string, body []byte) {
	x.releaseSlot(nil)
	wire.SetAnswerDeadline(x.Response())
	x.set(fieldContentType, contentType)
	x.set(fieldContentLength, strconv.Itoa(len(body)))
	x.Response().WriteHeader(status)
	if x.Request().Method != http.MethodHead {
		_, _ = x.Response().Write(body)
	}
}

// respondNothing answers with status 204: the change was made.
func (x *exchange) respondNothing() error {
	x.set(fieldCacheControl, "no-store")
	return x.NoContent(http.StatusNoContent)
}

func decimal(n int64) string { return strconv.FormatInt(n, 10) }

// refuse answers with the problem that err is, and returns it. No other function
// writes error answers.
func refuse(x *exchange, err error) api.Problem {
	p := problem.Of(err)
	if x.Response().Committed {
		return p // an answer has begun, and cannot be replaced
	}
	if p.Status == http.StatusUnauthorized {
		x.set(fieldAuthenticate, challenge)
	}
	if p.Status == http.StatusServiceUnavailable {
		x.set(fieldRetryAfter, decimal(service.WholeSeconds(service.RetryAfter(err))))
	}
	// A problem is made of strings that can always be encoded.
	_ = x.respondJSON(p.Status, api.MediaProblem, p)
	return p
}
