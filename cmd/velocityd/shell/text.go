package shell

import (
	"fmt"
	"strconv"
	"strings"
	"time"
	"unicode"

	"velocityd/service"
)

// Printable returns text, quoted if it is empty, has spaces around it or holds
// characters that could control the terminal: attackers choose keys.
func Printable(text string) string {
	unprintable := func(r rune) bool { return !unicode.IsPrint(r) }
	if text == "" || strings.ContainsFunc(text, unprintable) || strings.TrimSpace(text) != text {
		return strconv.Quote(text)
	}
	return text
}

// Counted writes a number of things whose plural ends in s: "1 zone", "2 zones".
func Counted(n int, thing string) string {
	if n == 1 {
		return "1 " + thing
	}
	return fmt.Sprintf("%d %ss", n, thing)
}

// InstantOr returns an instant to the second in UTC, or text for the zero time.
func InstantOr(text string, at time.Time) string {
	if at.IsZero() {
		return text
	}
	return at.UTC().Format(time.RFC3339)
}

// Expiry returns when an override or a token ends.
func Expiry(at, now time.Time) string {
	end := InstantOr("never", at)
	if service.HasExpired(at, now) {
		return "expired " + end
	}
	return end
}
