package handlers

import (
	"net/http"

	"velocityd/api"
)

// describe answers GET /openapi.yaml. Tests hold the description against the
// routes, the wire types and real answers.
func (s *server) describe(x *exchange) error {
	x.respond(http.StatusOK, "application/yaml", api.Description)
	return nil
}
