package problem

import (
	"errors"
	"net/http"

	"velocityd/service"
	"velocityd/service/access"
)

// gateError is an error of a gateway's request. A gateway acts on the status alone: 401, 403 and 429 mean that the
// attempt is blocked and nothing else, because a gateway tells them to end users; and FreeRADIUS goes on after 404. So
// each error that has to be mended at the gateway is 400, which no gateway lets pass.
type gateError struct{ cause error }

// AtGate returns err as the error of a gateway's request; nil stays nil.
func AtGate(err error) error {
	if err == nil {
		return nil
	}
	return &gateError{err}
}

// noCredential is for the log, too: no user is limited and none logs in until the gateway has its credential.
const noCredential = "The gateway has not proved its identity. Let it send a token of the scope check in X-API-Key, " +
	"or a registered client certificate; Authorization is the end user's. If it has sent one of them, that is unknown, " +
	"revoked or expired."

func (e *gateError) Error() string {
	if errors.Is(e.cause, access.ErrUnauthenticated) {
		return noCredential
	}
	return e.cause.Error()
}

func (e *gateError) Unwrap() error { return e.cause }

// GateStatus returns the status that an error has at a gate.
func GateStatus(err error) int {
	status := kindOf(err).Status
	switch {
	case errors.Is(err, service.ErrForbidden): // of the service's account at the database
		return http.StatusInternalServerError
	case status < http.StatusInternalServerError:
		return http.StatusBadRequest
	}
	return status
}
