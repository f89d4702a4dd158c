package handlers

import (
	_ "embed"
	"mime"
	"net/http"
	"strconv"
	"strings"

	"velocityd/api"
)

// welcomePage is the page at the service's address.
//
//go:embed root.html
var welcomePage []byte

// welcomeText is the answer there to other callers than browsers.
//
//go:embed root.txt
var welcomeText []byte

// welcomePolicy lets the page load, run and submit nothing.
const welcomePolicy = "default-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

const (
	pathWelcome     = "/"
	pathDescription = "/openapi.yaml"
)

const (
	fieldPolicy = "Content-Security-Policy"
	fieldVary   = "Vary"
)

// welcome answers GET / with a few lines about the service, and the place of its description.
func (s *server) welcome(x *exchange) error {
	x.set(fieldPolicy, welcomePolicy)
	x.set(fieldVary, "Accept")
	if accepts(x.Request().Header, "text/html") {
		x.respond(http.StatusOK, "text/html; charset=utf-8", welcomePage)
		return nil
	}
	x.respond(http.StatusOK, "text/plain; charset=utf-8", welcomeText)
	return nil
}

// accepts reports whether a request accepts a media type by name.
func accepts(header http.Header, wanted string) bool {
	for _, line := range header["Accept"] {
		for given := range strings.SplitSeq(line, ",") {
			media, params, err := mime.ParseMediaType(given)
			if err != nil || media != wanted {
				continue
			}
			weight, err := strconv.ParseFloat(params["q"], 64)
			return params["q"] == "" || err == nil && weight > 0
		}
	}
	return false
}

// describe answers GET /openapi.yaml. Tests hold the description against the
// routes, the wire types and real answers.
func (s *server) describe(x *exchange) error {
	x.respond(http.StatusOK, "application/yaml", api.Description)
	return nil
}
