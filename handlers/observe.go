package handlers

import (
	"net/http"

	"velocityd/api"
)

// Observed is an answered request without its content.
type Observed struct {
	// Method is as the caller has written it, and may be any word.
	Method string
	// Route is the template of the request's path, such as /v1/zones/:id, or "" if no route
	// matches. The path itself may hold a bucket key.
	Route  string
	Status int
	// Refused is the code of the problem if the request was refused for its credential or its origin, or was to ask for checks
	// and was refused before Options.Limiter saw any of them, or was refused by a door; otherwise it is empty.
	Refused string
	// Err is the error that the answer tells, as a store returned it, or nil. It may quote the engine.
	Err error
}

// refusedUnasked returns the code of a refusal that no check has counted.
func (x *exchange) refusedUnasked(answer api.Problem) string {
	if answer.Status < http.StatusInternalServerError && (x.isCheck() || x.isDenied(answer.Code)) && len(x.asked.Checks) == 0 {
		return answer.Code
	}
	return ""
}
