package handlers

import (
	"context"
	"net/http"

	"velocityd/api"
	"velocityd/handlers/admission"
)

// The paths that envoyproxy/ratelimit has, for its clients that do not speak gRPC.
const (
	pathJSON        = "/json"
	pathHealthcheck = "/healthcheck"
)

// RateLimits answers requests of Envoy's Rate Limit Service in JSON.
type RateLimits interface {
	// AnswerJSON returns the RateLimitResponse to a RateLimitRequest of an admitted caller, and whether that is over its
	// limit. It writes its check into logged. The errors are those of Options.Limiter, and one that wraps
	// service.ErrInvalid.
	AnswerJSON(ctx context.Context, request []byte, caller admission.Caller, logged *admission.Request) (answer []byte,
		isOver bool, err error)
}

// answerJSON answers POST /json with 200, or 429 for a request that is over its limit.
func (s *server) answerJSON(x *exchange) error {
	request, err := readGateBody(x)
	if err != nil {
		return err
	}
	answer, isOver, err := s.RateLimits.AnswerJSON(x.Request().Context(), request, x.caller, &x.logged)
	if err != nil {
		return err
	}
	if len(x.logged.Decisions) == 1 {
		setRateLimit(x, x.logged.Decisions[0])
	}
	status := http.StatusOK
	if isOver {
		status = http.StatusTooManyRequests
	}
	x.set(fieldCacheControl, "no-store")
	x.respond(status, api.MediaJSON, answer)
	return nil
}

// healthcheck answers GET /healthcheck with 200 if checks can be decided now, and otherwise with 500.
func (s *server) healthcheck(x *exchange) error {
	ctx, cancel := context.WithTimeout(x.Request().Context(), readyTimeout)
	defer cancel()
	if s.Ready(ctx) != nil {
		x.respond(http.StatusInternalServerError, "text/plain; charset=utf-8", nil)
		return nil
	}
	x.respond(http.StatusOK, "text/plain; charset=utf-8", []byte("OK"))
	return nil
}
