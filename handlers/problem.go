package handlers

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"strings"
	"time"

	"github.com/labstack/echo/v4"

	"velocityd/api"
	"velocityd/service"
)

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

// kindOf returns what an error means to a caller, by the interface's table. What
// fits none is an internal fault.
func kindOf(err error) api.Kind {
	kind, known := api.KindOf(err)
	switch {
	case known:
	case errors.Is(err, context.DeadlineExceeded): // a look-up's own; it changes nothing and can be repeated
		kind, _ = api.KindOf(service.ErrBusy)
		kind.Detail = "The look-up took too long. Ask again after Retry-After seconds."
	case errors.Is(err, echo.ErrMethodNotAllowed):
		kind, _ = api.KindOf(api.ErrNoMethod)
	case errors.Is(err, echo.ErrNotFound):
		kind, _ = api.KindOf(api.ErrNoRoute)
	}
	return kind
}

// problemOf turns any error into what its caller may know about it.
func problemOf(err error) api.Problem {
	kind := kindOf(err)
	p := api.NewProblem(kind)
	var request *requestError
	switch {
	case p.Detail != "":
	case errors.As(err, &request):
		p.Detail, p.Pointer = request.detail, request.pointer
	default:
		p.Detail = strings.Replace(err.Error(), kind.Err.Error()+": ", "", 1) // the code says as much
	}
	if !strings.HasSuffix(p.Detail, ".") { // domain errors end without one
		p.Detail += "."
	}
	return p
}

// refuse is the one place that writes an error answer. It returns what it said.
func refuse(x *exchange, err error) api.Problem {
	p := problemOf(err)
	if x.Response().Committed {
		return p // an answer has begun: nothing can be said any more
	}
	if p.Status == http.StatusServiceUnavailable {
		x.set(fieldRetryAfter, decimal(service.WholeSeconds(retryAfter(err))))
	}
	// A problem is made of strings that can always be encoded.
	_ = x.respondJSON(p.Status, api.MediaProblem, p)
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
