package handlers

import (
	_ "embed"
	"net/http"
)

// openAPI is the description of the whole interface. Tests hold it against the
// routes, the wire types and real answers.
//
//go:embed openapi.yaml
var openAPI []byte

// describe answers GET /openapi.yaml.
func (s *server) describe(x *exchange) error {
	x.respond(http.StatusOK, "application/yaml", openAPI)
	return nil
}
