package api

import (
	"errors"
	"net/http"

	"velocityd/service"
	"velocityd/service/access"
)

// The kinds of error that only the HTTP interface knows. Package service has those of
// checks, zones and the engine, and package access those of callers.
var (
	// ErrInternal says that the service met an unexpected fault. The attempt may have been counted, or the
	// change made.
	ErrInternal = errors.New("internal fault")
	// ErrNotReady says that the instance cannot decide checks now.
	ErrNotReady = errors.New("not ready")
	// ErrMediaType says that a request's header does not announce JSON.
	ErrMediaType = errors.New("unsupported media type")
	// ErrTooLarge says that a body is too long.
	ErrTooLarge = errors.New("payload too large")
	// ErrTooSlow says that a request did not arrive in time.
	ErrTooSlow = errors.New("request timeout")
	// ErrTooManyStreams says that as many exports or followers are under way as may be at once.
	ErrTooManyStreams = errors.New("too many streams")
	// ErrForeignOrigin says that a request is one that a web page of another origin can
	// make a browser send. The browser's user need not know of it.
	ErrForeignOrigin = errors.New("foreign origin")
	// ErrNoMethod says that a path does not support a method.
	ErrNoMethod = errors.New("method not allowed")
	// ErrNoRoute says that a path does not exist. It is NOT service.ErrNotFound: a mistyped path must not
	// look like a zone that does not exist.
	ErrNoRoute = errors.New("route not found")
)

// Kind is one kind of error, in Go and on the wire.
type Kind struct {
	Err    error // the error in Go
	Status int   // the HTTP status
	Code   string
	// Detail is the fixed text for the caller. It is empty if the caller gets the
	// error's own text.
	Detail string
}

// Kinds returns the one table of errors: code, status and text of each. An error
// that fits several is the first of them.
func Kinds() []Kind {
	return []Kind{
		{
			ErrInternal, http.StatusInternalServerError, "internal", "The service met an unexpected fault. " +
				"If this was a check, the attempt may have been counted; if a change, it may have been made.",
		},
		{service.ErrInvalid, http.StatusBadRequest, "invalid_request", ""},
		{service.ErrNotFound, http.StatusNotFound, "not_found", ""},
		{service.ErrConflict, http.StatusConflict, "conflict", ""},
		{
			service.ErrForbidden, http.StatusForbidden, "forbidden",
			"The service's account at the database lacks a right for this. Nothing was counted or changed. Grant the right, " +
				"see docs/install.md.",
		},
		{service.ErrPrecondition, http.StatusPreconditionFailed, "precondition_failed", ""},
		{
			service.ErrUndecided, http.StatusGatewayTimeout, "undecided",
			"The answer did not come in time. The attempt may have been counted, or the change made.",
		},
		{
			service.ErrNoKeys, http.StatusServiceUnavailable, "no_keys",
			"The zone keeps pseudonyms in the place of keys (its key_form is hmac), and this instance has no keys to make " +
				"them with. Nothing was decided, recorded or changed. Start the instance with --key-hmac-file.",
		},
		{
			service.ErrBusy, http.StatusServiceUnavailable, "busy",
			"The service is busy, or its database is away or has no space. Nothing was decided, recorded or changed. " +
				"Ask again in some seconds.",
		},
		{
			access.ErrUnauthenticated, http.StatusUnauthorized, "unauthenticated",
			"This service answers callers that prove their identity: by a token in Authorization: Bearer or in X-API-Key, or " +
				"by a client certificate.",
		},
		{access.ErrMissingScope, http.StatusForbidden, "missing_scope", ""},
		{ErrNotReady, http.StatusServiceUnavailable, "not_ready", ""},
		{ErrTooManyStreams, http.StatusServiceUnavailable, "too_many_streams", ""},
		{ErrMediaType, http.StatusUnsupportedMediaType, "unsupported_media_type", ""},
		{ErrTooLarge, http.StatusRequestEntityTooLarge, "payload_too_large", ""},
		{
			ErrTooSlow, http.StatusRequestTimeout, "request_timeout",
			"The request did not arrive in time. Nothing was counted or changed.",
		},
		{ErrForeignOrigin, http.StatusForbidden, "foreign_origin", ""},
		{
			ErrNoMethod, http.StatusMethodNotAllowed, "method_not_allowed",
			"This path does not support that method. The Allow header lists the methods that it supports.",
		},
		{
			ErrNoRoute, http.StatusNotFound, "route_not_found",
			"This path does not exist. GET /openapi.yaml describes the paths that do.",
		},
	}
}

// KindOf returns the kind of err. An error of no kind is an internal fault, and
// then known is false.
func KindOf(err error) (kind Kind, known bool) {
	all := Kinds()
	for _, k := range all {
		if errors.Is(err, k.Err) {
			return k, true
		}
	}
	return all[0], false
}

// Problem is the body of every error answer, by RFC 9457. Programs should read
// Code, which never changes its meaning. A client returns it as an error.
type Problem struct { //nolint:errname // RFC 9457 calls it so
	Type   string `json:"type"`
	Title  string `json:"title"`
	Status int    `json:"status"`
	Detail string `json:"detail"`
	Code   string `json:"code"`
	// Pointer is the JSON Pointer of the value in the request body that is wrong, or
	// empty.
	Pointer string `json:"pointer,omitzero"`
	// Since is since when the service is not ready, and otherwise zero.
	Since service.Instant `json:"since,omitzero"`
}

// NewProblem returns the problem of a kind, with the kind's fixed text.
func NewProblem(k Kind) Problem {
	return Problem{Type: "about:blank", Title: http.StatusText(k.Status), Status: k.Status, Detail: k.Detail, Code: k.Code}
}

// Error implements error. It returns title and detail.
func (p *Problem) Error() string {
	if p.Detail == "" {
		return p.Title
	}
	return p.Title + ": " + p.Detail
}

// Unwrap returns the error that the code stands for, of package service, access or this
// package. It returns nil for an unknown code, and for a problem without a code, which
// velocityd never writes.
func (p *Problem) Unwrap() error {
	for _, k := range Kinds() {
		if k.Code == p.Code {
			return k.Err
		}
	}
	return nil
}
