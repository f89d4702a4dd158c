// Package api owns the wire: the types of the HTTP interface's requests and
// answers, each with its conversion from and to package service, the table of
// problems, and the description of the whole, openapi.yaml. The server and its
// clients share it. It must not know routes, how a request is checked, or any
// transport.
//
// The types can be encoded and decoded with encoding/json. Durations are whole
// seconds. A member that is not always there is left out, never null.
package api

import (
	_ "embed"
	"strconv"
	"time"
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

// HeaderPrincipal is the header in which a proxy names the user whom it acts for. The
// service believes it from trusted proxies alone, and records changes under this name.
const HeaderPrincipal = "X-Forwarded-User"

// HeaderReason is the header in which a caller says why it changes something. The audit of zones, overrides, tokens and webhooks has it.
const HeaderReason = "X-Velocity-Reason"

// MaxPage bounds the overrides of one answer.
const MaxPage = 1000

// EntityTag returns the ETag of a zone: its revision in quotes. A change with it in
// If-Match is made only if the zone still has this revision.
func EntityTag(revision uint64) string { return `"` + strconv.FormatUint(revision, 10) + `"` }

// Instant is a point in time: RFC 3339 in UTC, written with six digits always.
type Instant time.Time

// Append appends the text of the instant, without quotes, in whole microseconds.
func (i Instant) Append(b []byte) []byte {
	t := time.Time(i).UTC()
	// Package time formats this layout much faster than others.
	b = t.AppendFormat(b, time.RFC3339)
	point := len(b) - len("Z")
	b = strconv.AppendInt(b[:point], int64(1_000_000+t.Nanosecond()/1000), 10)
	b[point] = '.' // replaces the 1, which was there to keep leading zeros
	return append(b, 'Z')
}

// String implements fmt.Stringer.
func (i Instant) String() string { return string(i.Append(nil)) }

// MarshalText implements encoding.TextMarshaler. It never fails.
func (i Instant) MarshalText() ([]byte, error) { return i.Append(nil), nil }

// UnmarshalText implements encoding.TextUnmarshaler. It accepts any offset and any
// number of digits.
func (i *Instant) UnmarshalText(text []byte) error {
	t, err := time.Parse(time.RFC3339, string(text))
	*i = Instant(t.UTC())
	return err
}

// IsZero reports whether there is no instant. Then the member is left out.
func (i Instant) IsZero() bool { return time.Time(i).IsZero() }

// Time returns the instant in UTC, or the zero time if there is none.
func (i Instant) Time() time.Time { return time.Time(i).UTC() }
