// Package problem makes the answer of an error: its status, code, text and pointer. It owns the texts for callers, and
// hides the texts of stores and engines from them. It must not know routes, Echo or stores.
package problem

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"velocityd/api"
	"velocityd/service"
	"velocityd/service/access"
	"velocityd/service/shares"
)

// Error is the fault of a request. Its detail goes to the caller, and never repeats a bucket key.
type Error struct {
	kind    error
	detail  string
	pointer string
	since   time.Time
	cause   error // of a store, whose text the caller does not get; nil if there is none
}

func (e *Error) Error() string { return e.detail }

// Unwrap returns the kind.
func (e *Error) Unwrap() error { return e.kind }

// Cause returns the error of a store that err is made of, or err itself.
func Cause(err error) error {
	var request *Error
	if errors.As(err, &request) && request.cause != nil {
		return request.cause
	}
	return err
}

// New returns an error of a kind of the table, whose detail the caller gets.
func New(kind error, detail string) error { return &Error{kind: kind, detail: detail} }

// NewSince is New for a state that began at an instant.
func NewSince(kind error, detail string, since time.Time) error {
	return &Error{kind: kind, detail: detail, since: since}
}

// NewAt is New for a fault of the value that pointer points at, in the body of the request.
func NewAt(kind error, pointer, detail string) error {
	return &Error{kind: kind, detail: detail, pointer: pointer}
}

// Invalid refuses a request.
func Invalid(detail string) error { return New(service.ErrInvalid, detail) }

// PointAtField makes err point at the member of the request body that is wrong, if
// err is a service.FieldError.
func PointAtField(err error) error {
	var field *service.FieldError
	if !errors.As(err, &field) {
		return err
	}
	return PointAtElement(err, field.Field)
}

// PointAtElement makes err point at a place in the request body, if err is a service.FieldError.
func PointAtElement(err error, place string) error {
	var field *service.FieldError
	if !errors.As(err, &field) {
		return err
	}
	return InvalidField(place, strings.TrimPrefix(field.Error(), service.ErrInvalid.Error()+": "))
}

// InvalidField refuses the member field of the request body.
func InvalidField(field, detail string) error {
	return NewAt(service.ErrInvalid, "/"+field, detail)
}

// MissingField refuses a request body without the member field.
func MissingField(field string) error { return InvalidField(field, field+" is missing.") }

// PointBelow puts parent in front of the pointer of err, and label in front of its detail, if err is
// an Error: the body that err is about is one element of a larger one.
func PointBelow(err error, parent, label string) error {
	var request *Error
	if !errors.As(err, &request) {
		return err
	}
	return &Error{kind: request.kind, detail: label + request.detail, pointer: parent + request.pointer}
}

// PointAtBucket makes err point at the element i of buckets.
func PointAtBucket(err error, i int) error {
	return PointBelow(err, fmt.Sprint("/buckets/", i), fmt.Sprintf("bucket %d: ", i))
}

// NotFound is Replace for service.ErrNotFound.
func NotFound(err error, detail string) error { return Replace(err, service.ErrNotFound, detail) }

// Replace replaces the text of a store's error of a kind, which names the store's operation. It returns other errors as
// they are.
func Replace(err, kind error, detail string) error {
	if errors.Is(err, kind) {
		return &Error{kind: kind, detail: detail, cause: err}
	}
	return err
}

// Stale is the detail of a zone's ErrPrecondition.
const Stale = "The zone is not as If-Match or If-None-Match expects it: it was changed, made or deleted " +
	"meanwhile. GET it and decide anew."

// ReplaceTexts replaces the text of a store's error of a change, which may quote the
// engine. texts are those of the kinds of error for which the general text does not
// do.
func ReplaceTexts(err error, texts map[error]string) error {
	for kind, detail := range map[error]string{
		service.ErrInvalid:      "The database refused a value of the request.",
		service.ErrNotFound:     "Nothing has this id.",
		service.ErrConflict:     "The request contradicts what is recorded.",
		service.ErrPrecondition: Stale,
	} {
		if errors.Is(err, kind) {
			return &Error{kind: kind, detail: cmp.Or(texts[kind], detail), cause: err}
		}
	}
	return err
}

// kindOf returns the kind of err in the interface's table, with those of
// look-ups translated. An error of no kind is an internal fault.
func kindOf(err error) api.Kind {
	kind, known := api.KindOf(err)
	switch {
	case known:
	case errors.Is(err, context.DeadlineExceeded): // of a look-up, which changes nothing and can be repeated
		kind, _ = api.KindOf(service.ErrBusy)
		kind.Detail = "The look-up took too long. Ask again in some seconds."
	}
	return kind
}

// Of turns any error into the problem that the caller is answered.
func Of(err error) api.Problem {
	kind := kindOf(err)
	p := api.NewProblem(kind)
	var request *Error
	var full *shares.FullError
	switch {
	case errors.As(err, &full):
		p.Detail = "Nothing was decided, recorded or changed. Ask again later: " + full.Error()
	case p.Detail != "":
	case errors.As(err, &request):
		p.Detail, p.Pointer, p.Since.Time = request.detail, request.pointer, request.since
	default:
		p.Detail = strings.Replace(err.Error(), kind.Err.Error()+": ", "", 1) // the code says the same
	}
	if gateway := new(gateError); errors.As(err, &gateway) {
		p.Status = GateStatus(err)
		p.Title, p.Pointer = http.StatusText(p.Status), ""
		if errors.Is(err, access.ErrUnauthenticated) {
			p.Detail = noCredential
		}
	}
	if !strings.HasSuffix(p.Detail, ".") { // domain errors end without one
		p.Detail += "."
	}
	return p
}

// InvalidAt refuses the value that pointer points at. complaint is the rest of the
// sentence, such as "must not be null".
func InvalidAt(pointer, complaint string) error {
	subject := "The body"
	if pointer != "" {
		subject = "The value at " + pointer
	}
	return NewAt(service.ErrInvalid, pointer, subject+" "+complaint+".")
}
