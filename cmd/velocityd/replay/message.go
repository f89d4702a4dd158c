package replay

import (
	"fmt"
	"net/netip"
	"regexp"
	"strconv"
	"strings"
	"unicode/utf8"

	"velocityd/service"
)

// attempt is a login by user from addr that ended with outcome, and how many times it was made.
type attempt struct {
	user    string     // as the client sent it: attackers choose it, and it may be empty
	addr    netip.Addr // without scope, and never an IPv4-mapped IPv6 address; not valid if the log has none
	outcome service.Outcome
	times   int
}

// address is the address as a key, "" if there is none.
func (a attempt) address() string {
	if !a.addr.IsValid() {
		return ""
	}
	return a.addr.String()
}

// Parts of messages.
const (
	invalid = `(?:(?:invalid|illegal) user )?`
	source  = ` from (\S+) port \d+(?: ssh[12])?`
	sshKey  = `: \S+ (?:SHA\d+|MD5):[\w+/:=]+`
)

// messageForm is one way in which sshd says how a login ended. The groups of its expression are method,
// user and source.
type messageForm struct {
	text    *regexp.Regexp
	outcome service.Outcome
}

// messageForms are read in this order. A client that fails to log in chooses the user, which may be
// "x from 192.0.2.1 port 22 ssh2", so that only the last " from " is surely sshd's. An accepted user
// exists, but the text of a certificate may follow, which another person wrote: there the first " from "
// is sshd's. Where a certificate is refused, both could be forged: the first is taken.
var messageForms = []messageForm{ //nolint:gochecknoglobals // a table that nothing changes
	{regexp.MustCompile(`^Failed (\S+) for ` + invalid + `(.*)` + source + `$`), service.OutcomeFailure},
	{regexp.MustCompile(`^Failed (\S+) for ` + invalid + `(.*)` + source + sshKey + `$`), service.OutcomeFailure},
	{regexp.MustCompile(`^Failed (\S+) for ` + invalid + `(.*?)` + source + `: `), service.OutcomeFailure},
	{regexp.MustCompile(`^Accepted (\S+) for (.*?)` + source + `(?:: |$)`), service.OutcomeSuccess},
	// PAM's reason may hold " for ", and the source may be a host's name.
	{
		regexp.MustCompile(`^error: (PAM): (?:Have exhausted maximum number of retries for service|.+?) for ` + invalid +
			`(.*) from (\S+)$`),
		service.OutcomeFailure,
	},
}

// likeAttempt is found in lines that may be attempts, in any form.
var likeAttempt = regexp.MustCompile(
	`(?:message repeated \d+ times: \[ )?(?:(?:Failed|Accepted) (\S+) for|error: (PAM): .* for) .*from \S`)

// parseMessage reads a message of sshd that says how a login ended, and returns the method of the login, "PAM" for what
// PAM says of it. A client asks by method none which methods there are: its failure is no attempt.
func parseMessage(message string) (a attempt, method string, ok bool) {
	for _, form := range messageForms {
		m := form.text.FindStringSubmatch(message)
		if m == nil {
			continue
		}
		addr, _ := netip.ParseAddr(m[3]) // without an address it can still be an attempt in a zone of users
		a = attempt{user: unescape(m[2]), addr: addr.Unmap().WithZone(""), outcome: form.outcome, times: 1}
		return a, m[1], form.outcome == service.OutcomeSuccess || m[1] != "none"
	}
	return attempt{}, "", false
}

// The ways in which a line stands for up to 99,999: rsyslog repeats the message, other loggers name the line before.
var (
	folded = regexp.MustCompile(`^message repeated ([1-9]\d{0,4}) times?: \[ (.*)\]$`)
	again  = regexp.MustCompile(`^(?:--- )?[Ll]ast message (?:'.*' )?repeated ([1-9]\d{0,4}) times?\b`)
)

// escape is sshd's text for a byte, by strnvis(3).
var escape = regexp.MustCompile(`\\(?:[0-3][0-7]{2}|[\\nrtbavf])`)

// unescape undoes sshd's escapes, so that a user's name is the bytes that the client sent. Bytes that are no
// UTF-8 stay escaped: no caller could send them.
func unescape(text string) string {
	raw := escape.ReplaceAllStringFunc(text, func(code string) string {
		if i := strings.IndexByte(`\nrtbavf`, code[1]); i >= 0 {
			return "\\\n\r\t\b\a\v\f"[i : i+1]
		}
		octal, _ := strconv.ParseUint(code[1:], 8, 8) // three digits that escape has found
		return string([]byte{byte(octal)})
	})
	if utf8.ValidString(raw) {
		return raw
	}
	var out strings.Builder
	for i := 0; i < len(raw); {
		r, size := utf8.DecodeRuneInString(raw[i:])
		if r == utf8.RuneError && size == 1 {
			fmt.Fprintf(&out, `\%03o`, raw[i])
		} else {
			out.WriteString(raw[i : i+size])
		}
		i += size
	}
	return out.String()
}
