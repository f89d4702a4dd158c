package handlers

import (
	"errors"
	"log/slog"
	"net/http"
	"time"

	"velocityd/api"
	"velocityd/handlers/admission"
	"velocityd/handlers/problem"
	"velocityd/handlers/strictjson"
)

// maxLoggedMethod bounds the method in the log, which can be any word of the caller's.
const maxLoggedMethod = 16

// log writes a line of the access log, if that is on, and has faults of the service logged, which the log of faults may
// count only. No line holds a bucket key, a query, or a raw path. answer is the problem that the caller got if err is
// not nil.
func (s *server) log(x *exchange, took time.Duration, answer api.Problem, err error) {
	if s.AccessLog {
		s.logAccess(x, took, answer, err)
	}
	isLogged := false
	for _, fault := range x.logged.Faults(err, faultOf) {
		if fault.Kind == admission.None || fault.Kind == admission.Refused && !x.isCall() && !x.isDenied(fault.Code) {
			continue
		}
		isLogged = true
		fault.Method, fault.Route = x.routeMethod(), x.route()
		s.faults.Report(x.Request().Context(), fault, x.logged.ZoneIDs(), func() []slog.Attr {
			attrs := x.appendRequest(nil, took)
			if p := new(panicked); errors.As(err, &p) {
				attrs = append(attrs, slog.String("stack", string(p.stack)))
			}
			return attrs
		})
	}
	admission.LogEntryOf(x.Request().Context()).Answered(x.caller.Caller, isLogged)
}

// faultOf returns the fault that an error is, by its answer. ErrNotReady is none, because the owner
// of Options.Ready logs when the readiness changes.
func faultOf(err error) admission.Fault {
	answer := problem.Of(err)
	f := admission.Fault{Kind: admission.Refused, Code: answer.Code, Text: err.Error()}
	switch {
	case errors.Is(err, api.ErrNotReady):
		f.Kind = admission.None
	case answer.Status == http.StatusServiceUnavailable:
		f.Kind = admission.Busy
	case answer.Status >= http.StatusInternalServerError:
		f.Kind = admission.Failed
	case !strictjson.IsKnown(answer.Pointer):
		f.Text = "the body has a member that is not known" // its name is the caller's
	}
	return f
}

// isDenied reports whether a code says that the caller's credential or origin is refused. A request of a mounted
// handler is not denied by it: that handler answers its own caller.
func (x *exchange) isDenied(code string) bool {
	switch code {
	case "unauthenticated", "missing_scope", "foreign_origin":
		return admission.LogEntryOf(x.Request().Context()) == nil
	}
	return false
}

// isCall reports whether the request is one that login servers make: checks or reports.
func (x *exchange) isCall() bool {
	return x.isCheck() || x.Path() == pathGateOutcome || x.isPost(pathOutcomes) || x.isPost(pathOutcome)
}

// isCheck reports whether the request is one for checks, or was answered by a mounted handler, which logs its own
// refusals.
func (x *exchange) isCheck() bool {
	return x.template != "" || x.isPost(pathCheck) || x.isPost(pathChecks) || x.isPost(pathJSON) || isGate(x.Path())
}

func (x *exchange) isPost(path string) bool {
	return x.Path() == path && x.Request().Method == http.MethodPost
}

// routeMethod returns the method of the request, or "" for one that no route has: a caller that makes up methods makes
// no new faults by them.
func (x *exchange) routeMethod() string {
	switch method := x.Request().Method; method {
	case http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut, http.MethodDelete:
		return method
	}
	return ""
}

func (s *server) logAccess(x *exchange, took time.Duration, answer api.Problem, err error) {
	ctx, level := x.Request().Context(), slog.LevelInfo
	if IsProbe(x.Path()) {
		level = slog.LevelDebug
	}
	if !s.Logger.Enabled(ctx, level) {
		return
	}
	attrs := x.appendRequest(make([]slog.Attr, 0, 16), took)
	if err != nil {
		attrs = append(attrs, slog.String("code", answer.Code))
	}
	s.Logger.LogAttrs(ctx, level, "request", attrs...)
}

// appendRequest appends the request and how it was answered.
func (x *exchange) appendRequest(attrs []slog.Attr, took time.Duration) []slog.Attr {
	method := x.Request().Method
	attrs = append(attrs,
		slog.String("method", method[:min(len(method), maxLoggedMethod)]),
		slog.String("route", x.route()), // the route's template, or "" if no route matches
		slog.Int("status", x.Response().Status),
		slog.Duration("duration", took),
		slog.Int64("bytes", x.Response().Size),
		slog.String("request_id", x.id))
	if x.caller.Name != "" {
		attrs = append(attrs, slog.String("caller", x.caller.Name))
	}
	return x.logged.AppendAttrs(append(attrs, x.attrs...))
}

// Observed is an answered request without its content.
type Observed struct {
	// Method is as the caller has written it, and may be any word.
	Method string
	// Route is the template of the request's path, such as /v1/zones/:id, or "" if no route
	// matches. The path itself may hold a bucket key.
	Route  string
	Status int
	// Refused is the code of the problem if the request was refused for its credential or its origin, or was to ask for
	// checks and was refused before Options.Limiter saw any of them, or was refused by a mounted handler; otherwise it is
	// empty.
	Refused string
	// Err is the error behind the answer, as a store returned it, or nil. It may quote the engine.
	Err error
}

// uncountedRefusal returns the code of a refusal that no check has counted.
func (x *exchange) uncountedRefusal(answer api.Problem) string {
	if answer.Status < http.StatusInternalServerError && (x.isCheck() || x.isDenied(answer.Code)) &&
		len(x.logged.Checks) == 0 {
		return answer.Code
	}
	return ""
}
