package handlers

import (
	"bytes"
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"strconv"

	"github.com/labstack/echo/v4"

	"velocityd/api"
	"velocityd/handlers/admission"
	"velocityd/handlers/gate"
	"velocityd/handlers/problem"
	"velocityd/handlers/wire"
	"velocityd/service"
)

// The paths that gateways ask, by any method and, below the name of a gate, with any path behind it.
const (
	pathGate      = "/v1/gate"
	pathNamed     = "/gate/:name"
	pathBelowName = "/gate/:name/*"
	// pathGateOutcome is no gate: no attempt passes by its answer.
	pathGateOutcome = "/gate/:name/outcome"
)

// anyMethod routes the requests of a path that no other route of it has.
const anyMethod = echo.RouteNotFound

// Names of header fields of a gate's answer, in the canonical form of net/http.
const (
	fieldTxnID     = "X-Velocity-Txn-Id"
	fieldAttemptID = "X-Velocity-Attempt-Id"
)

// Gates are the named gates that are in force.
type Gates interface {
	Gate(name string) (g gate.Gate, ok bool)
}

// isGate reports whether a route is one for gateways.
func isGate(route string) bool {
	return route == pathGate || route == pathNamed || route == pathBelowName
}

// isOfGateways reports whether a route is one that gateways ask, with an end user's headers.
func isOfGateways(route string) bool { return isGate(route) || route == pathGateOutcome }

// shortGate answers /v1/gate.
func (s *server) shortGate(x *exchange) error {
	question, err := gate.Short(s.gateRequest(x))
	if err != nil {
		return err
	}
	return s.answerGate(x, question)
}

// namedGate answers /gate/{name} and the paths below it.
func (s *server) namedGate(x *exchange, named gate.Gate) error {
	question, err := named.Question(s.gateRequest(x), x.Path() == pathBelowName)
	if err != nil {
		return err
	}
	return s.answerGate(x, question)
}

// gateOutcome answers /gate/{name}/outcome with the status 204: the outcome is recorded. Its errors are as those of
// /v1/attempts/{id}/outcome.
func (s *server) gateOutcome(x *exchange, named gate.Gate) error {
	report, err := named.Report(s.gateRequest(x))
	if err != nil {
		return err
	}
	errs, err := s.report(x, []service.Report{report})
	if err == nil {
		err = errs[0]
	}
	if err != nil {
		return err
	}
	return x.respondNothing()
}

func (s *server) gateOf(x *exchange) (gate.Gate, error) {
	name, err := pathPart(x, "name")
	if err != nil {
		return gate.Gate{}, err
	}
	if s.Gates != nil {
		if named, ok := s.Gates.Gate(name); ok {
			return named, nil
		}
	}
	return gate.Gate{}, problem.New(service.ErrNotFound, "There is no gate of this name in the file of --gates.")
}

// gateRequest returns the request of a gateway as package gate reads it.
func (s *server) gateRequest(x *exchange) *gate.Request {
	return &gate.Request{
		HTTP:   x.Request(),
		Client: func() (netip.Addr, error) { return s.client(x.Request()) },
		Body:   func() ([]byte, error) { return readGateBody(x) },
	}
}

// readGateBody reads the whole body of a request of a gateway, or of Envoy's Rate Limit Service.
func readGateBody(x *exchange) ([]byte, error) {
	r := x.Request()
	length := r.ContentLength
	if length < 0 || length > gate.MaxBody { // not known, or not read to its end
		length = gate.MaxBody
	}
	if err := x.takeMemory(length); err != nil {
		return nil, err
	}
	var text bytes.Buffer
	_, err := text.ReadFrom(http.MaxBytesReader(x.Response().Writer, r.Body, gate.MaxBody))
	if errors.As(err, new(*http.MaxBytesError)) {
		return nil, problem.New(api.ErrTooLarge, fmt.Sprintf("The body must be at most %d bytes.", gate.MaxBody))
	}
	return text.Bytes(), bodyError(err)
}

// answerGate decides the check and answers by the status.
func (s *server) answerGate(x *exchange, question gate.Question) error {
	if err := x.caller.MayCheck(question.Check); err != nil {
		return err
	}
	decisions, err := s.decide(x, []service.Check{question.Check})
	if err == nil {
		err = decisions[0].Err
	}
	if err != nil {
		return unansweredGate(x, question.Answer, err)
	}
	d := decisions[0]
	setRateLimit(x, d)
	if id := d.TxnID(); id != 0 {
		x.set(fieldTxnID, strconv.FormatUint(id, 10))
	}
	if question.Check.AttemptID != "" {
		x.set(fieldAttemptID, question.Check.AttemptID)
	}
	if d.Blocked {
		x.denyGate(question.Deny, service.WholeSeconds(d.RetryAfter()))
	} else {
		x.allowGate(question.Allow)
	}
	return nil
}

// unansweredGate answers a check that could not be decided, as the gate wants it. It returns err, which is logged
// in any case.
func unansweredGate(x *exchange, answer gate.Answer, err error) error {
	if problem.GateStatus(err) < http.StatusInternalServerError {
		return err // the gateway's question is wrong
	}
	switch wait := service.WholeSeconds(service.RetryAfter(err)); answer.Busy {
	case gate.BusyAllows:
		x.allowGate(answer.Allow)
	case gate.BusyDenies:
		x.set(fieldRetryAfter, decimal(wait))
		x.denyGate(answer.Deny, wait)
	case gate.BusyFails:
	}
	return err
}

// allowGate answers that the attempt may go ahead.
func (x *exchange) allowGate(status int) {
	wire.SetAnswerDeadline(x.Response())
	x.set(fieldCacheControl, "no-store")
	if status == http.StatusOK {
		x.set(fieldContentLength, "0")
	}
	x.Response().WriteHeader(status)
}

// denyGate answers that the attempt may not go ahead. Some gateways pass the answer on to the end user. A status of
// 401 has no WWW-Authenticate: no credential would help.
func (x *exchange) denyGate(status int, seconds int64) {
	x.set(fieldCacheControl, "no-store")
	x.respond(status, "text/plain; charset=utf-8", admission.Denial(seconds))
}
