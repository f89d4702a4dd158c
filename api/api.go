// Package api owns the wire: the table of problems, headers, the envelopes around the nouns of package service in
// requests and answers, and the description of the whole, openapi.yaml. The server and its clients share it. It must
// not know routes, how a request is checked, or any transport.
//
// The nouns and these types can be encoded and decoded with encoding/json. Durations are whole
// seconds. A member that is not always there is left out, never null.
package api

import (
	_ "embed"
	"strconv"
)

// Description is the OpenAPI description of the whole interface, in YAML. It is one copy for all
// requests, and must not be changed.
//
//go:embed openapi.yaml
var Description []byte

// EventSchema is the JSON Schema of events. It is one copy for all requests, and must not be changed.
//
//go:embed events.schema.json
var EventSchema []byte

// Media types of the bodies.
const (
	MediaJSON    = "application/json"
	MediaProblem = "application/problem+json" // of errors, by RFC 9457
)

// HeaderPrincipal is the header in which a proxy names its user. The service takes it from trusted proxies alone, and
// records changes under this name.
const HeaderPrincipal = "X-Forwarded-User"

// HeaderReason is the header with the reason of a change. The audit of zones, overrides, tokens and webhooks has it.
const HeaderReason = "X-Velocity-Reason"

// MaxPage bounds the overrides of one answer.
const MaxPage = 1000

// EntityTag returns the ETag of a zone: its revision in quotes. A change with it in
// If-Match is made only if the zone still has this revision.
func EntityTag(revision uint64) string { return `"` + strconv.FormatUint(revision, 10) + `"` }
