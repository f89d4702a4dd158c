package handlers

import (
	"errors"
	"fmt"
	"net/http"
	"strconv"

	"github.com/go-json-experiment/json"

	"velocityd/api"
	"velocityd/handlers/admission"
	"velocityd/handlers/problem"
	"velocityd/handlers/strictjson"
	"velocityd/service"
	"velocityd/service/access"
)

const (
	pathCheck  = "/v1/check"
	pathChecks = "/v1/checks"
)

// postCheck answers POST /v1/check.
func (s *server) postCheck(x *exchange) error {
	var request strictjson.CheckRequest
	err := s.withBody(x, func(body []byte) (err error) {
		request, err = s.decoder.Check(body)
		return err
	})
	switch {
	case err != nil:
		return err
	case request.Fault != nil:
		return request.Fault
	}
	if request.Check.AttemptID, err = attemptID(x.Request().Header, request.Check.AttemptID); err != nil {
		return err
	}
	if err := x.caller.MayCheck(request.Check); err != nil {
		return pointAtFault(request, err)
	}
	decisions, err := s.decide(x, []service.Check{request.Check})
	if err != nil {
		return err
	}
	if err := decisions[0].Err; err != nil {
		return pointAtFault(request, err)
	}
	setRateLimit(x, decisions[0])
	return s.respondAppended(x, decisions[0].AppendJSON)
}

// postChecks answers POST /v1/checks: each check by itself, unless the body is
// not of the right shape or nothing could be decided at all.
func (s *server) postChecks(x *exchange) error {
	if len(x.Request().Header.Values(headerAttempt)) > 0 {
		return problem.Invalid("The header " + headerAttempt + " names one attempt: give each check its own attempt_id.")
	}
	var requests []strictjson.CheckRequest
	err := s.withBody(x, func(body []byte) (err error) {
		requests, err = s.decoder.Checks(body)
		return err
	})
	switch {
	case err != nil:
		return err
	case len(requests) == 0:
		return strictjson.WrongLength("checks", service.MaxChecks)
	}
	checks := make([]service.Check, len(requests))
	for i := range requests {
		q := &requests[i]
		if q.Fault == nil {
			q.Fault = pointAtFault(*q, x.caller.MayCheck(q.Check))
		}
		if q.Fault == nil {
			checks[i] = q.Check // the Limiter does not ask the store about an empty one
		}
	}
	if err := x.takeMemory(answerBytes(checks)); err != nil {
		return err
	}
	decisions, err := s.decide(x, checks)
	if err != nil {
		return err
	}
	for i := range decisions {
		err := &decisions[i].Err
		switch element := "/checks/" + strconv.Itoa(i); {
		case requests[i].Fault != nil:
			*err = problem.PointBelow(requests[i].Fault, element, "")
		case errors.Is(*err, service.ErrInvalid):
			*err = problem.PointBelow(pointAtFault(requests[i], *err), element, "")
		}
	}
	return s.respondAppended(x, func(b []byte) ([]byte, error) { return appendResults(b, decisions) })
}

const attemptDetail = "This attempt_id was given before, with other buckets."

// decide asks the Limiter. For a caller in this process the error of a lone check is that of the call, which it gets as
// it is.
func (s *server) decide(x *exchange, checks []service.Check) ([]service.Decision, error) {
	x.logged.Checks = checks
	decisions, err := s.Limiter.CheckAll(x.Request().Context(), checks)
	for i := range decisions {
		decisions[i].Err = problem.Replace(decisions[i].Err, service.ErrConflict, attemptDetail)
	}
	x.logged.Decisions = decisions
	if err == nil && s.InProcess && len(decisions) == 1 {
		return decisions, decisions[0].Err
	}
	return decisions, s.callError(err)
}

// callError returns err if a whole call may fail with it. Any other error becomes an internal fault: the caller must
// not see its text, unless it is in this process.
func (s *server) callError(err error) error {
	isOfWhole := errors.Is(err, service.ErrBusy) || errors.Is(err, service.ErrUndecided) ||
		errors.Is(err, service.ErrForbidden)
	if err == nil || s.InProcess || isOfWhole {
		return err
	}
	return fmt.Errorf("%w: %w", api.ErrInternal, err)
}

// pointAtFault makes err point at the bucket and the member that are wrong, if err
// names them. If the caller's scopes do not hold in the zone of a bucket, the zone is wrong.
func pointAtFault(q strictjson.CheckRequest, err error) error {
	lack, about := new(admission.ScopeError), new(service.BucketError)
	switch {
	case errors.As(err, &lack):
		err = problem.NewAt(access.ErrMissingScope, "/zone_id", lack.Error())
		if q.IsListed {
			return problem.PointAtBucket(err, lack.Bucket)
		}
	case errors.Is(err, service.ErrInvalid):
		pointed := problem.PointAtField(err)
		if q.IsListed && errors.As(err, &about) {
			return problem.PointAtBucket(pointed, about.Bucket)
		}
		return pointed
	}
	return err
}

// setRateLimit sets RateLimit-Policy and RateLimit as package api makes them, and Retry-After if d is blocked.
func setRateLimit(x *exchange, d service.Decision) {
	if d.Blocked {
		x.set(fieldRetryAfter, decimal(service.WholeSeconds(d.RetryAfter())))
	}
	if policy, limit := api.RateLimit(d); policy != "" {
		x.set(fieldRateLimitPolicy, policy)
		x.set(fieldRateLimit, limit)
	}
}

// respondAppended answers with the JSON that encode appends.
func (s *server) respondAppended(x *exchange, encode func([]byte) ([]byte, error)) error {
	answer := s.buffers.take()
	defer s.buffers.giveBack(answer)
	body, err := encode(answer.AvailableBuffer())
	if err != nil {
		return fmt.Errorf("encode answer: %w", err)
	}
	answer.Write(body) // copies only if body has outgrown the buffer
	x.set(fieldCacheControl, "no-store")
	x.respond(http.StatusOK, api.MediaJSON, answer.Bytes())
	return nil
}

// appendResults appends the answers of several checks: the decision of each, or the
// problem made of its Err.
func appendResults(b []byte, decisions []service.Decision) (_ []byte, err error) {
	b = append(b, `{"results":[`...)
	for i, d := range decisions {
		if i > 0 {
			b = append(b, ',')
		}
		if b, err = appendResult(b, d); err != nil {
			return b, err
		}
	}
	return append(b, "]}"...), nil
}

func appendResult(b []byte, d service.Decision) (_ []byte, err error) {
	if d.Err == nil {
		b, err = d.AppendJSON(append(b, `{"decision":`...))
		return append(b, '}'), err
	}
	text, err := json.Marshal(problem.Of(d.Err))
	return append(append(append(b, `{"problem":`...), text...), '}'), err
}
