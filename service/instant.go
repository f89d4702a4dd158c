package service

import (
	"errors"
	"strconv"
	"time"
)

// Instant is a point in time, or none. In JSON it is RFC 3339 in UTC, with six digits of a second always.
type Instant struct{ time.Time }

// At returns an instant.
func At(t time.Time) Instant { return Instant{t} }

// Append appends the text of the instant, without quotes, in whole microseconds.
func (i Instant) Append(b []byte) []byte {
	t := i.UTC()
	// Package time formats this layout much faster than others.
	b = t.AppendFormat(b, time.RFC3339)
	point := len(b) - len("Z")
	b = strconv.AppendInt(b[:point], int64(1_000_000+t.Nanosecond()/1000), 10)
	b[point] = '.' // replaces the 1, which was there to keep leading zeros
	return append(b, 'Z')
}

// String implements fmt.Stringer.
func (i Instant) String() string { return string(i.Append(nil)) }

// MarshalJSON implements json.Marshaler. It never fails.
func (i Instant) MarshalJSON() ([]byte, error) { return append(i.Append([]byte{'"'}), '"'), nil }

// errNoInstant says that a JSON value is no instant.
var errNoInstant = errors.New("no instant by RFC 3339")

// UnmarshalJSON implements json.Unmarshaler. It accepts any offset and any number of digits. Its error does not quote
// the value.
func (i *Instant) UnmarshalJSON(text []byte) error {
	if len(text) < 2 || text[0] != '"' || text[len(text)-1] != '"' {
		return errNoInstant
	}
	t, err := time.Parse(time.RFC3339, string(text[1:len(text)-1]))
	if err != nil {
		return errNoInstant
	}
	i.Time = t.UTC()
	return nil
}

// Duration is a length of time. In JSON it is a number of whole seconds, rounded down.
type Duration struct{ time.Duration }

// Lasting returns a duration.
func Lasting(d time.Duration) Duration { return Duration{d} }

// IsZero reports whether there is no duration. Then the member is left out.
func (d Duration) IsZero() bool { return d.Duration == 0 }

// MarshalJSON implements json.Marshaler. It never fails.
func (d Duration) MarshalJSON() ([]byte, error) {
	return strconv.AppendInt(nil, WholeSeconds(d.Duration), 10), nil
}

// UnmarshalJSON implements json.Unmarshaler.
func (d *Duration) UnmarshalJSON(text []byte) error {
	n, err := strconv.ParseInt(string(text), 10, 64)
	if err != nil {
		return errors.New("no whole number of seconds")
	}
	d.Duration = Seconds(n)
	return nil
}
