package replay

import (
	"errors"
	"fmt"
	"io"
	"net/netip"
	"strings"
	"testing"
	"testing/iotest"

	"velocityd/service"
)

const stamp = "Dec 10 06:55:48 gate sshd[24200]: "

func TestParseLineReadsAttempts(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		line string
		user string
		addr string
		n    int
	}{
		"failed":               {stamp + "Failed password for root from 203.0.113.9 port 38926 ssh2", "root", "203.0.113.9", 1},
		"invalid user":         {stamp + "Failed password for invalid user eve from 203.0.113.9 port 38926 ssh2", "eve", "203.0.113.9", 1},
		"day of one digit":     {"Jan  2 06:55:48 gate sshd[1]: Failed password for root from 203.0.113.9 port 1 ssh2", "root", "203.0.113.9", 1},
		"leap day":             {"Feb 29 06:55:48 gate sshd[1]: Failed password for root from 203.0.113.9 port 1 ssh2", "root", "203.0.113.9", 1},
		"CRLF":                 {stamp + "Failed password for root from 203.0.113.9 port 38926 ssh2\r\n", "root", "203.0.113.9", 1},
		"no protocol":          {stamp + "Failed password for root from 203.0.113.9 port 38926", "root", "203.0.113.9", 1},
		"no pid":               {"Dec 10 06:55:48 gate sshd: Failed password for root from 203.0.113.9 port 1 ssh2", "root", "203.0.113.9", 1},
		"sshd-session":         {"Dec 10 06:55:48 gate sshd-session[7]: Failed password for root from 203.0.113.9 port 1 ssh2", "root", "203.0.113.9", 1},
		"ISO time":             {"2026-02-28T23:59:59.123456+02:00 gate sshd[7]: Failed password for root from 203.0.113.9 port 1 ssh2", "root", "203.0.113.9", 1},
		"ISO time in UTC":      {"2026-02-28T23:59:59Z gate sshd[7]: Failed password for root from 203.0.113.9 port 1 ssh2", "root", "203.0.113.9", 1},
		"IPv6":                 {stamp + "Failed password for root from 2001:db8::7 port 22 ssh2", "root", "2001:db8::7", 1},
		"IPv4 as IPv6":         {stamp + "Failed password for root from ::ffff:203.0.113.9 port 22 ssh2", "root", "203.0.113.9", 1},
		"empty user":           {stamp + "Failed password for invalid user  from 203.0.113.9 port 22 ssh2", "", "203.0.113.9", 1},
		"empty known user":     {stamp + "Failed password for  from 203.0.113.9 port 22 ssh2", "", "203.0.113.9", 1},
		"user with spaces":     {stamp + "Failed password for invalid user a b  c from 203.0.113.9 port 22 ssh2", "a b  c", "203.0.113.9", 1},
		"user plays a source":  {stamp + "Failed password for invalid user x from 192.0.2.1 port 22 from 203.0.113.9 port 9 ssh2", "x from 192.0.2.1 port 22", "203.0.113.9", 1},
		"user plays a line":    {stamp + "Failed password for invalid user root from 192.0.2.1 port 22 ssh2 from 203.0.113.9 port 9 ssh2", "root from 192.0.2.1 port 22 ssh2", "203.0.113.9", 1},
		"user plays a prefix":  {stamp + "Failed password for invalid user invalid user x from 203.0.113.9 port 9 ssh2", "invalid user x", "203.0.113.9", 1},
		"user 'invalid user'":  {stamp + "Failed password for invalid user from 203.0.113.9 port 9 ssh2", "invalid user", "203.0.113.9", 1},
		"user in other script": {stamp + "Failed password for invalid user Zoë from 203.0.113.9 port 9 ssh2", "Zoë", "203.0.113.9", 1},
		"accepted":             {stamp + "Accepted password for ann from 203.0.113.9 port 49116 ssh2", "ann", "203.0.113.9", 1},
		"accepted key":         {stamp + "Accepted publickey for ann from 2001:db8::7 port 4 ssh2: ED25519 SHA256:abc", "ann", "2001:db8::7", 1},
		"accepted certificate's text": {
			stamp + "Accepted publickey for ann from 203.0.113.9 port 4 ssh2: RSA-CERT SHA256:abc ID x from 192.0.2.1 port 22 ssh2: (serial 0) CA RSA SHA256:d",
			"ann", "203.0.113.9", 1,
		},
		"repeated":         {stamp + "message repeated 5 times: [ Failed password for root from 203.0.113.9 port 2 ssh2]", "root", "203.0.113.9", 5},
		"repeated a lot":   {stamp + "message repeated 100000 times: [ Failed password for root from 203.0.113.9 port 2 ssh2]", "root", "203.0.113.9", 100_000},
		"repeated, spaces": {stamp + "message repeated 2 times: [ Failed password for invalid user a ] from 203.0.113.9 port 2 ssh2]", "a ]", "203.0.113.9", 2},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, ok := parseLine(c.line)
			outcome := service.OutcomeFailure
			if strings.HasPrefix(name, "accepted") {
				outcome = service.OutcomeSuccess
			}
			if want := (attempt{c.user, netip.MustParseAddr(c.addr), outcome, c.n}); !ok || got != want {
				t.Errorf("%q:\n got %+v, %v\nwant %+v", c.line, got, ok, want)
			}
		})
	}
}

func TestParseLinePassesOverWhatIsNoAttempt(t *testing.T) {
	t.Parallel()
	for _, line := range []string{
		"", "\n", " ", "x", stamp, strings.TrimSpace(stamp), "Dec 10 06:55:48", "Dec 10 06:55:48 ", "Dec 10 06:55:48 gate",
		stamp + "Invalid user eve from 203.0.113.9",
		stamp + "Connection closed by 203.0.113.9 [preauth]",
		stamp + "Failed none for invalid user eve from 203.0.113.9 port 49811 ssh2",
		stamp + "pam_unix(sshd:auth): authentication failure; rhost=203.0.113.9",
		stamp + "Failed password for root",
		stamp + "Failed password for root from",
		stamp + "Failed password for root from UNKNOWN port 65535 ssh2",
		stamp + "Failed password for root from host.example port 22 ssh2",
		stamp + "Failed password for root from 203.0.113.9",
		stamp + "Failed password for root from 203.0.113.9 port",
		stamp + "Failed password for root from 203.0.113.9 port 65536 ssh2",
		stamp + "Failed password for root from 203.0.113.9 port -1 ssh2",
		stamp + "Failed password for root from 203.0.113.900 port 22 ssh2",
		stamp + "Failed password for root from 203.0.113.9 port 22 ssh2 and more",
		stamp + "Failed password for root from 203.0.113.9 port 22 ssh2: more",
		stamp + "Accepted ",
		stamp + "Accepted password for ann",
		stamp + "Accepted a word for ann from 203.0.113.9 port 22 ssh2",
		stamp + "message repeated 0 times: [ Failed password for root from 203.0.113.9 port 2 ssh2]",
		stamp + "message repeated -1 times: [ Failed password for root from 203.0.113.9 port 2 ssh2]",
		stamp + "message repeated 100001 times: [ Failed password for root from 203.0.113.9 port 2 ssh2]",
		stamp + "message repeated 99999999999999999999 times: [ Failed password for root from 203.0.113.9 port 2 ssh2]",
		stamp + "message repeated x times: [ Failed password for root from 203.0.113.9 port 2 ssh2]",
		stamp + "message repeated 2 times: [ Failed password for root from 203.0.113.9 port 2 ssh2",
		stamp + "message repeated 2 times: [ message repeated 2 times: [ Failed password for root from 203.0.113.9 port 2 ssh2]]",
		"Dec 10 06:55:48 gate cron[1]: Failed password for root from 203.0.113.9 port 22 ssh2",
		"Dec 10 06:55:48 gate su[1]: sshd[1]: Failed password for root from 203.0.113.9 port 22 ssh2",
		"Dec 10 06:55:48 gate sshdx[1]: Failed password for root from 203.0.113.9 port 22 ssh2",
		"Dec 10 06:55:48 gate sshd[x]: Failed password for root from 203.0.113.9 port 22 ssh2",
		"Dec 10 06:55:48 gate sshd[1: Failed password for root from 203.0.113.9 port 22 ssh2",
		"Dec 40 06:55:48 gate sshd[1]: Failed password for root from 203.0.113.9 port 22 ssh2",
		"2026-02-30T00:00:00Z gate sshd[1]: Failed password for root from 203.0.113.9 port 22 ssh2",
		"Failed password for root from 203.0.113.9 port 22 ssh2",
	} {
		if got, ok := parseLine(line); ok {
			t.Errorf("%q: read as %+v", line, got)
		}
	}
}

func TestLineReaderCutsOverlongLinesOnly(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", 3*maxLine)
	input := "one\n" + long + "\n\r\ntwo\r\n" + long + "\nlast"
	reader := newLineReader(iotest.OneByteReader(strings.NewReader(input)))
	total := 0
	for i, want := range []string{"one\n", "", "\r\n", "two\r\n", "", "last"} {
		line, size, err := reader.next()
		if err != nil || line != want {
			t.Fatalf("line %d: got %.20q (%v), want %q", i, line, err, want)
		}
		total += size
	}
	if _, _, err := reader.next(); !errors.Is(err, io.EOF) || total != len(input) {
		t.Errorf("at the end: %v after %d of %d bytes", err, total, len(input))
	}
	broken := newLineReader(iotest.ErrReader(io.ErrUnexpectedEOF))
	if _, _, err := broken.next(); !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("a broken file: %v", err)
	}
}

// FuzzParseLine holds that nothing in a line can break the parser, and that no
// user name, whatever it holds, can change the address or itself.
func FuzzParseLine(f *testing.F) {
	for _, text := range []string{
		"", "root", "invalid user", "x from 192.0.2.1 port 22 ssh2", "a]", "a: b",
		stamp + "message repeated 5 times: [ Failed password for root from 203.0.113.9 port 2 ssh2]",
		stamp + "Accepted publickey for ann from 2001:db8::7 port 4 ssh2: ED25519 SHA256:abc",
		"2026-02-28T23:59:59Z gate sshd-session[7]: Failed password for invalid user  from ::1 port 1 ssh2\r\n",
	} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if a, ok := parseLine(text); ok {
			if (service.Report{TxnID: 1, Outcome: a.outcome}).Validate() != nil {
				t.Errorf("%q: read as %+v", text, a)
			}
			if a.times < 1 || a.times > maxRepeats || !a.addr.IsValid() || a.addr.Is4In6() || !strings.Contains(text, a.user) {
				t.Errorf("%q: read as %+v", text, a)
			}
		}
		want := attempt{text, netip.MustParseAddr("203.0.113.9"), service.OutcomeFailure, 3}
		line := fmt.Sprintf("%smessage repeated 3 times: [ Failed password for invalid user %s from 203.0.113.9 port 9 ssh2]\r\n", stamp, text)
		if got, ok := parseLine(line); !ok || got != want {
			t.Errorf("user %q: read as %+v, %v", text, got, ok)
		}
	})
}
