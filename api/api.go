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

// Description is the OpenAPI description of the whole interface, in YAML.
//
//go:embed openapi.yaml
var Description string

// Media types of the bodies.
const (
	MediaJSON    = "application/json"
	MediaProblem = "application/problem+json" // of errors, by RFC 9457
)

// HeaderPrincipal is where a proxy that has asked the caller who he is says so.
// The service believes it: changes are recorded under this name.
const HeaderPrincipal = "X-Forwarded-User"

// MaxPage is how many overrides one answer holds at most.
const MaxPage = 1000

// EntityTag returns the ETag of a zone: its revision in quotes. It is what
// If-Match has to name for a change of this revision alone.
func EntityTag(revision uint64) string { return `"` + strconv.FormatUint(revision, 10) + `"` }

// Instant is a point in time: RFC 3339 in UTC, written with six digits always.
type Instant time.Time

// Append appends the instant as it is written, without quotes. It cuts off what
// is less than a microsecond.
func (i Instant) Append(b []byte) []byte {
	t := time.Time(i).UTC()
	// The package time writes whole seconds much faster than any layout of one's own.
	b = t.AppendFormat(b, time.RFC3339)
	point := len(b) - len("Z")
	b = strconv.AppendInt(b[:point], int64(1_000_000+t.Nanosecond()/1000), 10)
	b[point] = '.' // in place of the 1, which has kept the zeros
	return append(b, 'Z')
}

// String implements fmt.Stringer.
func (i Instant) String() string { return string(i.Append(nil)) }

// MarshalText implements encoding.TextMarshaler. It never fails.
func (i Instant) MarshalText() ([]byte, error) { return i.Append(nil), nil }

// UnmarshalText implements encoding.TextUnmarshaler. It takes any offset and any
// number of digits.
func (i *Instant) UnmarshalText(text []byte) error {
	t, err := time.Parse(time.RFC3339, string(text))
	*i = Instant(t.UTC())
	return err
}

// IsZero says that there is no instant; such a member is left out.
func (i Instant) IsZero() bool { return time.Time(i).IsZero() }

// Time returns the instant in UTC. What is no instant becomes the zero time.
func (i Instant) Time() time.Time { return time.Time(i).UTC() }
