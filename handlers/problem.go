package handlers

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/labstack/echo/v4"

	"velocityd/api"
	"velocityd/service"
	"velocityd/service/access"
	"velocityd/service/shares"
)

// requestError names the fault of a request. Its detail goes to the caller, and
// never repeats a bucket key.
type requestError struct {
	kind    error
	detail  string
	pointer string
	cause   error // of a store, whose text the caller does not get; nil if there is none
}

func (e *requestError) Error() string { return e.detail }
func (e *requestError) Unwrap() error { return e.kind }

// causeOf returns the error of a store that err is made of, or err itself.
func causeOf(err error) error {
	var request *requestError
	if errors.As(err, &request) && request.cause != nil {
		return request.cause
	}
	return err
}

func invalid(detail string) error {
	return &requestError{kind: service.ErrInvalid, detail: detail}
}

// pointAtField makes err point at the member of the request body that is wrong, if
// err is a service.FieldError.
func pointAtField(err error) error {
	var field *service.FieldError
	if !errors.As(err, &field) {
		return err
	}
	return pointAtElement(err, field.Field)
}

// pointAtElement makes err point at a place in the request body, if err is a service.FieldError.
func pointAtElement(err error, place string) error {
	var field *service.FieldError
	if !errors.As(err, &field) {
		return err
	}
	return invalidField(place, strings.TrimPrefix(field.Error(), service.ErrInvalid.Error()+": "))
}

// invalidField refuses the member field of the request body.
func invalidField(field, detail string) error {
	return &requestError{kind: service.ErrInvalid, detail: detail, pointer: "/" + field}
}

func missingField(field string) error { return invalidField(field, field+" is missing.") }

// pointBelow puts parent in front of the pointer of err, and label in front of its detail, if err is
// a requestError: the body that err is about is one element of a larger one.
func pointBelow(err error, parent, label string) error {
	var request *requestError
	if !errors.As(err, &request) {
		return err
	}
	return &requestError{kind: request.kind, detail: label + request.detail, pointer: parent + request.pointer}
}

// pointAtBucket makes err point at the element i of buckets.
func pointAtBucket(err error, i int) error {
	return pointBelow(err, fmt.Sprint("/buckets/", i), fmt.Sprintf("bucket %d: ", i))
}

// notFound replaces the text of a store's ErrNotFound, which names the store's
// operation.
func notFound(err error, detail string) error {
	if errors.Is(err, service.ErrNotFound) {
		return &requestError{kind: service.ErrNotFound, detail: detail, cause: err}
	}
	return err
}

// replaceText replaces the text of a store's error of a change, which may quote the
// engine. texts are those of the kinds of error for which the general text does not
// do.
func replaceText(err error, texts map[error]string) error {
	for kind, detail := range map[error]string{
		service.ErrInvalid:      "The database refused a value of the request.",
		service.ErrNotFound:     "Nothing has this id.",
		service.ErrConflict:     "The request contradicts what is recorded.",
		service.ErrPrecondition: staleDetail,
	} {
		if errors.Is(err, kind) {
			return &requestError{kind: kind, detail: cmp.Or(texts[kind], detail), cause: err}
		}
	}
	return err
}

// kindOf returns the kind of err in the interface's table, with the errors of Echo
// and of look-ups translated. An error of no kind is an internal fault.
func kindOf(err error) api.Kind {
	kind, known := api.KindOf(err)
	switch {
	case known:
	case errors.Is(err, context.DeadlineExceeded): // of a look-up, which changes nothing and can be repeated
		kind, _ = api.KindOf(service.ErrBusy)
		kind.Detail = "The look-up took too long. Ask again in some seconds."
	case errors.Is(err, echo.ErrMethodNotAllowed):
		kind, _ = api.KindOf(api.ErrNoMethod)
	case errors.Is(err, echo.ErrNotFound):
		kind, _ = api.KindOf(api.ErrNoRoute)
	}
	return kind
}

// problemOf turns any error into the problem that the caller is answered.
func problemOf(err error) api.Problem {
	kind := kindOf(err)
	p := api.NewProblem(kind)
	var request *requestError
	var full *shares.FullError
	switch {
	case errors.As(err, &full):
		p.Detail = "Nothing was decided, recorded or changed. Ask again later: " + full.Error()
	case p.Detail != "":
	case errors.As(err, &request):
		p.Detail, p.Pointer = request.detail, request.pointer
	default:
		p.Detail = strings.Replace(err.Error(), kind.Err.Error()+": ", "", 1) // the code says the same
	}
	if gateway := new(gateError); errors.As(err, &gateway) {
		p.Status = statusAtGate(err)
		p.Title, p.Pointer = http.StatusText(p.Status), ""
		if errors.Is(err, access.ErrUnauthenticated) {
			p.Detail = gateStranger
		}
	}
	if !strings.HasSuffix(p.Detail, ".") { // domain errors end without one
		p.Detail += "."
	}
	return p
}

// refuse answers with the problem that err is, and returns it. No other function
// writes error answers.
func refuse(x *exchange, err error) api.Problem {
	p := problemOf(err)
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
