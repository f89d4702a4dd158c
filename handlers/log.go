package handlers

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"slices"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"velocityd/api"
	"velocityd/service"
)

// Bounds of the text that callers can bring into the log.
const (
	maxLoggedZones  = 16
	maxLoggedMethod = 16
	maxLoggedFault  = 4 << 10
)

// log writes a line of the access log, if that is on, and has a fault of the service
// logged, which faultLog may count only. Neither line holds a bucket key, a query, or a
// raw path. answer is what the caller was answered if err is not nil.
func (s *server) log(x *exchange, took time.Duration, answer api.Problem, err error) {
	if s.accessLog {
		s.logAccess(x, took, answer, err)
	}
	if err == nil {
		s.logParts(x, took)
		s.logDegraded(x, took)
	}
	f, isFault := x.faultOf(answer, err)
	if !isFault || !s.logger.Enabled(x.Request().Context(), f.level) {
		return
	}
	s.faults.report(x.Request().Context(), f, x.zoneIDs(), func() []slog.Attr {
		attrs := x.appendRequest(nil, took)
		if p := new(panicked); errors.As(err, &p) {
			attrs = append(attrs, slog.String("stack", string(p.stack)))
		}
		return attrs
	})
}

// logParts reports the worst fault among the parts of a call, the first of several: a failure is
// worse than a refusal. It is for calls that do not fail as a whole.
func (s *server) logParts(x *exchange, took time.Duration) {
	worst := x.worseOf(fault{}, x.refusedReport)
	for _, d := range x.decisions {
		worst = x.worseOf(worst, d.Err)
	}
	if worst.level > 0 {
		s.faults.report(x.Request().Context(), worst, x.zoneIDs(), func() []slog.Attr { return x.appendRequest(nil, took) })
	}
}

// worseOf returns worst, or the fault that err is if that should rather be logged.
func (x *exchange) worseOf(worst fault, err error) fault {
	if err == nil {
		return worst
	}
	if f, isFault := x.faultOf(problemOf(err), err); isFault && f.isWorse(worst) {
		return f
	}
	return worst
}

// faultOf returns what an operator must know of an answer other than what was asked for: a failure
// of the service, or that a check or report was refused. If all of them are refused, nobody is
// limited or nobody can log in, and only the operator can find out why.
func (x *exchange) faultOf(answer api.Problem, err error) (f fault, isFault bool) {
	f = fault{method: x.routeMethod(), route: x.Path(), code: answer.Code}
	if f.level, isFault = faultLevel(answer, err); isFault {
		f.text = err.Error()
		return f, true
	}
	if err == nil || answer.Status >= http.StatusInternalServerError || !x.isCall() {
		return f, false
	}
	f.level, f.kind, f.text = slog.LevelWarn, requestRefused, err.Error()
	if knownPart(jsontext.Pointer(answer.Pointer)) != answer.Pointer {
		f.text = "the body has a member that is not known" // its name is the caller's
	}
	return f, true
}

// isCall reports whether the request is one that login servers make: checks or reports.
func (x *exchange) isCall() bool {
	return x.isCheck() || x.isPost(pathOutcomes) || x.isPost(pathOutcome)
}

// isCheck reports whether the request is one for checks.
func (x *exchange) isCheck() bool { return x.isPost(pathCheck) || x.isPost(pathChecks) }

func (x *exchange) isPost(path string) bool {
	return x.Path() == path && x.Request().Method == http.MethodPost
}

// logDegraded reports a call of which some checks were answered without the database.
func (s *server) logDegraded(x *exchange, took time.Duration) {
	for _, d := range x.decisions {
		if d.Degraded {
			s.faults.report(x.Request().Context(), fault{
				level: slog.LevelWarn, method: x.routeMethod(), route: x.Path(),
				kind: requestDegraded, code: "degraded", text: degradedText(d),
			}, x.zoneIDs(), func() []slog.Attr { return x.appendRequest(nil, took) })
			return
		}
	}
}

// routeMethod returns the method of the request, or "" for one that no route has: a caller who makes
// up methods makes no faults of their own by them.
func (x *exchange) routeMethod() string {
	switch method := x.Request().Method; method {
	case http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut, http.MethodDelete:
		return method
	}
	return ""
}

func degradedText(d service.Decision) string {
	switch {
	case !d.Blocked:
		return "allowed by on_failure, and recorded nowhere"
	case d.HasCause():
		return "blocked, because a bucket is full, locked or denied as far as this instance knows, and recorded nowhere"
	}
	return "blocked by on_failure, or because this instance can remember no more buckets, and recorded nowhere"
}

func (s *server) logAccess(x *exchange, took time.Duration, answer api.Problem, err error) {
	ctx, level := x.Request().Context(), slog.LevelInfo
	if x.isProbe() {
		level = slog.LevelDebug
	}
	if !s.logger.Enabled(ctx, level) {
		return
	}
	attrs := x.appendRequest(make([]slog.Attr, 0, 16), took)
	if err != nil {
		attrs = append(attrs, slog.String("code", answer.Code))
	}
	s.logger.LogAttrs(ctx, level, "request", attrs...)
}

// isProbe reports whether the request is one that load balancers and monitors repeat
// every few seconds.
func (x *exchange) isProbe() bool { return IsProbe(x.Path()) }

// faultLevel reports whether an answer means that something is wrong with the
// service, its database or the rights of its account there, and the level to log it
// at. It is not a fault that a caller has left, nor that a web page was refused.
// ErrNotReady is not one either, because Options.Ready's owner logs when the readiness
// changes.
func faultLevel(answer api.Problem, err error) (level slog.Level, isFault bool) {
	switch {
	case err == nil, errors.Is(err, context.Canceled), errors.Is(err, api.ErrNotReady), errors.Is(err, api.ErrForeignOrigin):
		return 0, false
	case answer.Status == http.StatusServiceUnavailable: // nothing was decided, and the caller was told so
		return slog.LevelWarn, true
	case answer.Status >= http.StatusInternalServerError, errors.Is(err, service.ErrForbidden):
		return slog.LevelError, true
	}
	return 0, false
}

// appendRequest appends what was asked and how it was answered.
func (x *exchange) appendRequest(attrs []slog.Attr, took time.Duration) []slog.Attr {
	method := x.Request().Method
	attrs = append(attrs,
		slog.String("method", method[:min(len(method), maxLoggedMethod)]),
		slog.String("route", x.Path()), // the route's template, or "" if no route matches
		slog.Int("status", x.Response().Status),
		slog.Duration("duration", took),
		slog.Int64("bytes", x.Response().Size),
		slog.String("request_id", x.id))
	if x.caller.Name != "" {
		attrs = append(attrs, slog.String("caller", x.caller.Name))
	}
	return x.appendChecks(append(attrs, x.attrs...))
}

// appendChecks appends the zones that were asked about, and the decisions.
func (x *exchange) appendChecks(attrs []slog.Attr) []slog.Attr {
	if len(x.checks) == 0 {
		return attrs
	}
	attrs = append(attrs, slog.Any("zone_ids", x.zoneIDs()))
	if len(x.checks) == 1 && len(x.decisions) == 1 && x.decisions[0].Err == nil {
		if d := x.decisions[0]; d.Degraded {
			return append(attrs, slog.Bool("degraded", true), slog.Bool("blocked", d.Blocked))
		}
		return append(attrs, slog.Uint64("txn_id", x.decisions[0].TxnID()), slog.Bool("blocked", x.decisions[0].Blocked))
	}
	if len(x.checks) == 1 {
		return attrs
	}
	blocked, refused, degraded := 0, 0, 0
	for _, d := range x.decisions {
		if d.Degraded {
			degraded++
		}
		if d.Blocked {
			blocked++
		}
		if d.Err != nil {
			refused++
		}
	}
	attrs = append(attrs, slog.Int("checks", len(x.checks)),
		slog.Int("blocked_checks", blocked), slog.Int("refused_checks", refused))
	if degraded > 0 {
		attrs = append(attrs, slog.Int("degraded_checks", degraded))
	}
	return attrs
}

// zoneIDs returns the first zones that were asked about, each once.
func (x *exchange) zoneIDs() []int64 {
	ids := make([]int64, 0, 2)
	for _, check := range x.checks {
		for _, b := range check.Buckets {
			ids = appendZones(ids, []int64{b.ZoneID})
		}
	}
	return ids
}

// appendZones appends the zones that list does not have, while it is short enough for a line.
func appendZones(list, zones []int64) []int64 {
	for _, id := range zones {
		if len(list) < maxLoggedZones && !slices.Contains(list, id) {
			list = append(list, id)
		}
	}
	return list
}
