package shell

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"velocityd/service"
)

// Duration is a length of time on the command line, in whole seconds and not
// negative: a bare number is seconds (60), and units may be named (60s, 5m, 24h,
// 7d, 1d12h). Package service decides which lengths a setting may have.
type Duration time.Duration

// UnmarshalText reads the length. The error says what may be written.
func (f *Duration) UnmarshalText(text []byte) error {
	length, err := ParseLength(string(text))
	if number, negative := strings.CutPrefix(string(text), "-"); isDigits(number) {
		length, err = parseSeconds(number)
		if negative {
			length = -length
		}
	}
	switch {
	case errors.Is(err, errTooLong):
		return err
	case err != nil:
		return fmt.Errorf("must be seconds such as 60, or a length such as 90s, 5m, 24h or 7d; it is %q", text)
	case length < 0:
		return fmt.Errorf("must not be negative; it is %q", text)
	case length%time.Second != 0:
		return fmt.Errorf("must be whole seconds; it is %q", text)
	}
	*f = Duration(length)
	return nil
}

const day = 24 * time.Hour

var (
	errNoLength = errors.New("not a length of time")
	errTooLong  = fmt.Errorf("must be at most %dd", int64(math.MaxInt64/day))
)

// parseSeconds reads a number of seconds, which must be digits alone. The error is
// errTooLong if a time.Duration cannot hold it.
func parseSeconds(digits string) (time.Duration, error) {
	n, err := strconv.ParseInt(digits, 10, 64)
	if err != nil || n > int64(math.MaxInt64/time.Second) {
		return 0, errTooLong
	}
	return time.Duration(n) * time.Second, nil
}

// ParseLength reads what time.ParseDuration reads, also with days in front of it (7d,
// 1d12h, -2d). It refuses a bare number other than 0. The error is errTooLong if a
// time.Duration cannot hold so many days.
func ParseLength(text string) (time.Duration, error) {
	unsigned, negative := strings.CutPrefix(text, "-")
	days, rest, found := strings.Cut(unsigned, "d")
	if !found {
		return time.ParseDuration(text)
	}
	if !isDigits(days) || strings.ContainsAny(rest, "+-") {
		return 0, errNoLength
	}
	var below time.Duration // the part after the days
	if rest != "" {
		var err error
		if below, err = time.ParseDuration(rest); err != nil {
			return 0, err
		}
	}
	n, err := strconv.ParseInt(days, 10, 64)
	if err != nil || n > int64((math.MaxInt64-below)/day) {
		return 0, errTooLong
	}
	length := time.Duration(n)*day + below
	if negative {
		length = -length
	}
	return length, nil
}

// ParseMoment reads a moment: a length of time after now (72h, 7d), a time
// (2026-12-31T23:59:59Z), or a date (2026-12-31), which means the date's first instant
// in UTC, as it does in SQL. The moment may lie in the past. The error says what may
// be written.
func ParseMoment(text string, now time.Time) (time.Time, error) {
	if length, err := ParseLength(text); err == nil {
		return now.Add(length), nil
	}
	for _, layout := range []string{time.RFC3339, time.DateOnly} {
		if at, err := time.Parse(layout, text); err == nil {
			return at, nil
		}
	}
	return time.Time{}, fmt.Errorf("must be a length such as 72h or 7d, a date such as 2026-12-31 (its first instant in "+
		"UTC), or a time such as 2026-12-31T23:59:59Z; it is %q", text)
}

// ParseInterval reads the flags --since and --until, which name a length before now, a date or a time as ParseMoment
// does. Of an empty one the zero time is returned. The error is a UsageError.
func ParseInterval(since, until string, now time.Time) (from, to time.Time, err error) {
	for _, end := range []struct {
		flag, text string
		at         *time.Time
	}{{"--since", since, &from}, {"--until", until, &to}} {
		if end.text == "" {
			continue
		}
		if _, err := ParseLength(end.text); err == nil {
			end.text = "-" + end.text
		}
		if *end.at, err = ParseMoment(end.text, now); err != nil {
			return from, to, Usagef("%s %w", end.flag, err)
		}
	}
	return from, to, nil
}

// isDigits reports whether text is one or more of the digits 0 to 9.
func isDigits(text string) bool { return text != "" && strings.Trim(text, "0123456789") == "" }

// ParseExpiry reads a moment after now. For "", which means never, it returns the zero
// time.
func ParseExpiry(text string, now time.Time) (time.Time, error) {
	if text == "" {
		return time.Time{}, nil
	}
	at, err := ParseMoment(text, now)
	switch {
	case err != nil:
		return at, Usagef("--expires %w", err)
	case !at.After(now):
		return at, Usagef("--expires must lie in the future")
	}
	at = at.UTC().Truncate(time.Microsecond)
	if err := service.ValidateExpiry(at); err != nil {
		return at, UsageError{Err: err}
	}
	return at, nil
}
