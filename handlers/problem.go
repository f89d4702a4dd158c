package handlers

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"strings"
	"time"

	"github.com/labstack/echo/v4"

	"velocityd/service"
)

// Kinds of error that only HTTP knows.
var (
	errFault     = errors.New("internal fault")
	errMediaType = errors.New("unsupported media type")
	errTooLarge  = errors.New("payload too large")
	errTooSlow   = errors.New("request timeout")
	errNotReady  = errors.New("not ready")
)

// problem is the body of every error answer, by RFC 9457. Programs should read
// Code, which never changes its meaning.
type problem struct {
	Type   string `json:"type"`
	Title  string `json:"title"`
	Status int    `json:"status"`
	Detail string `json:"detail"`
	Code   string `json:"code"`
	// Pointer is the JSON Pointer of the place in the request body that is
	// wrong, if there is one.
	Pointer string `json:"pointer,omitzero"`
}

// requestError says what is wrong with a request in words that are fit for its
// sender: it never repeats a bucket key.
type requestError struct {
	kind    error
	detail  string
	pointer string
}

func (e *requestError) Error() string { return e.detail }
func (e *requestError) Unwrap() error { return e.kind }

func invalid(detail string) error {
	return &requestError{kind: service.ErrInvalid, detail: detail}
}

// inBody points at the member of the request body that is wrong, if err says
// which one.
func inBody(err error) error {
	var field *service.FieldError
	if !errors.As(err, &field) {
		return err
	}
	return wrong(field.Field, strings.TrimPrefix(field.Error(), service.ErrInvalid.Error()+": "))
}

// wrong refuses the member of the request body that is called field.
func wrong(field, detail string) error {
	return &requestError{kind: service.ErrInvalid, detail: detail, pointer: "/" + field}
}

func missing(field string) error { return wrong(field, field+" is missing.") }

// notFound gives an error words of the handler's own if it says that what was
// asked for does not exist: a store's say what it was doing.
func notFound(err error, detail string) error {
	if errors.Is(err, service.ErrNotFound) {
		return &requestError{kind: service.ErrNotFound, detail: detail}
	}
	return err
}

// inWords gives an error of a change words of the handler's own: a store's may
// quote what the engine said. words are for the kinds that need better ones than
// these.
func inWords(err error, words map[error]string) error {
	for kind, detail := range map[error]string{
		service.ErrInvalid:      "The database refused a value of the request.",
		service.ErrNotFound:     "There is nothing of this id.",
		service.ErrConflict:     "It contradicts what is recorded.",
		service.ErrPrecondition: staleDetail,
	} {
		if errors.Is(err, kind) {
			return &requestError{kind: kind, detail: cmp.Or(words[kind], detail)}
		}
	}
	return err
}

// kind is what an error means to a caller.
type kind struct {
	of     error
	status int
	code   string
	detail string // empty: the error's own text is fit for the caller
}

const internalDetail = "The service met an unexpected fault. " +
	"If this was a check, the attempt may have been counted; if a change, it may have been made."

// kinds is the one table of errors to HTTP; the first row that fits counts, and
// the first of all is for what fits none.
func kinds() []kind {
	return []kind{
		{errFault, http.StatusInternalServerError, "internal", internalDetail},
		{service.ErrInvalid, http.StatusBadRequest, "invalid_request", ""},
		{service.ErrNotFound, http.StatusNotFound, "not_found", ""},
		{service.ErrConflict, http.StatusConflict, "conflict", ""},
		{
			service.ErrForbidden, http.StatusForbidden, "forbidden",
			"The service's account at the database lacks a right for this. Nothing was counted or changed: grant it, see the README.",
		},
		{service.ErrPrecondition, http.StatusPreconditionFailed, "precondition_failed", ""},
		{
			service.ErrUndecided, http.StatusGatewayTimeout, "undecided",
			"The answer did not come in time. The attempt may have been counted, or the change made.",
		},
		{
			service.ErrBusy, http.StatusServiceUnavailable, "busy",
			"The service is busy or its database is away. Nothing was decided, recorded or changed: ask again after Retry-After seconds.",
		},
		// A look-up's own deadline; it changes nothing and can be repeated.
		{
			context.DeadlineExceeded, http.StatusServiceUnavailable, "busy",
			"The look-up took too long. Ask again after Retry-After seconds.",
		},
		{errNotReady, http.StatusServiceUnavailable, "not_ready", ""},
		{errMediaType, http.StatusUnsupportedMediaType, "unsupported_media_type", ""},
		{errTooLarge, http.StatusRequestEntityTooLarge, "payload_too_large", ""},
		{
			errTooSlow, http.StatusRequestTimeout, "request_timeout",
			"The body did not arrive in time. Nothing was counted or changed.",
		},
		{
			echo.ErrMethodNotAllowed, http.StatusMethodNotAllowed, "method_not_allowed",
			"This path does not answer that method. The Allow header lists those it does.",
		},
		// Not "not_found": a caller must not take a mistyped path for a zone that
		// does not exist.
		{
			echo.ErrNotFound, http.StatusNotFound, "route_not_found",
			"There is nothing at this path. GET /openapi.yaml describes what there is.",
		},
	}
}

// kindOf returns the row of err; what fits none is an internal fault.
func kindOf(err error) kind {
	all := kinds()
	for _, k := range all {
		if errors.Is(err, k.of) {
			return k
		}
	}
	return all[0]
}

// problemOf turns any error into what its caller may know about it.
func problemOf(err error) problem {
	fits := kindOf(err)
	p := problem{
		Type: "about:blank", Title: http.StatusText(fits.status), Status: fits.status,
		Detail: fits.detail, Code: fits.code,
	}
	var request *requestError
	switch {
	case p.Detail != "":
	case errors.As(err, &request):
		p.Detail, p.Pointer = request.detail, request.pointer
	default:
		p.Detail = strings.Replace(err.Error(), fits.of.Error()+": ", "", 1) // the code says as much
	}
	if !strings.HasSuffix(p.Detail, ".") { // domain errors end without one
		p.Detail += "."
	}
	return p
}

// refuse is the one place that writes an error answer. It returns what it said.
func refuse(x *exchange, err error) problem {
	p := problemOf(err)
	if x.Response().Committed {
		return p // an answer has begun: nothing can be said any more
	}
	if p.Status == http.StatusServiceUnavailable {
		x.set(fieldRetryAfter, decimal(seconds(retryAfter(err))))
	}
	// A problem is made of strings that can always be encoded.
	_ = x.respondJSON(p.Status, "application/problem+json", p)
	return p
}

// retryAfter is when asking again may help, for an answer of 503.
func retryAfter(err error) time.Duration {
	var busy *service.BusyError
	if errors.As(err, &busy) {
		return busy.RetryAfter
	}
	return service.BusyRetryAfter
}
