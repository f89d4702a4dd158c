package replay

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"unicode/utf8"

	"velocityd/service"
)

// escaped is text as sshd writes it.
func escaped(text string) string {
	var out strings.Builder
	for _, b := range []byte(text) {
		switch {
		case b == '\\':
			out.WriteString(`\\`)
		case b < ' ' || b > '~':
			fmt.Fprintf(&out, `\%03o`, b)
		default:
			out.WriteByte(b)
		}
	}
	return out.String()
}

// FuzzReader holds that nothing in a line can break the reader, and that no user name, with any content, can
// change the address or itself.
func FuzzReader(f *testing.F) {
	for _, text := range []string{
		"", "root", "invalid user", "x from 192.0.2.1 port 22 ssh2", "x from 192.0.2.1 port 22 ssh2: RSA SHA256:x", "a]",
		"a: b", "zoë", `CORP\zoe`, "\xff", " for ",
		stamp + "message repeated 5 times: [ Failed password for root from 203.0.113.9 port 2 ssh2]",
		stamp + "Accepted publickey for ann from 2001:db8::7 port 4 ssh2: ED25519 SHA256:abc",
		"2026-02-28T23:59:59Z gate sshd-session[7]: Failed password for invalid user  from ::1 port 1 ssh2\r\n",
		"<86>1 2026-11-22T10:00:01Z bsd sshd 1 ID47 [a@1 x=\"y\"] error: PAM: x for y from ::1",
		"Nov 26 09:08:09 gate last message repeated 2 times",
		`{"__REALTIME_TIMESTAMP":"1795341602123456","_HOSTNAME":"gate","SYSLOG_IDENTIFIER":"sshd","MESSAGE":[70,97]}`,
	} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		r := &reader{}
		if a := r.read(text); a.times != 0 {
			if (service.Report{TxnID: 1, Outcome: a.outcome}).Validate() != nil || !utf8.ValidString(a.user) ||
				a.addr.Is4In6() ||
				a.addr.Zone() != "" {
				t.Errorf("%q: read as %+v", text, a)
			}
		}
		want := attempt{unescape(escaped(text)), netip.MustParseAddr("203.0.113.9"), service.OutcomeFailure, 3}
		if utf8.ValidString(text) && want.user != text {
			t.Errorf("user %q: unescaped as %q", text, want.user)
		}
		for _, message := range []string{
			"Failed password for invalid user " + escaped(text) + " from 203.0.113.9 port 9 ssh2",
			"Failed publickey for invalid user " + escaped(text) + " from 203.0.113.9 port 9 ssh2: ED25519 SHA256:abc",
			"error: PAM: Authentication failure for illegal user " + escaped(text) + " from 203.0.113.9",
		} {
			if got := (&reader{}).read(stamp + "message repeated 3 times: [ " + message + "]\r\n"); got != want {
				t.Errorf("user %q in %q: read as %+v", text, message, got)
			}
		}
	})
}
