package replay

import (
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"
)

const stamp = "Dec 10 06:55:48 gate sshd[24200]: "

// story is the result of a reader from lines: "USER ADDRESS OUTCOME xTIMES" for each that adds attempts.
func story(lines ...string) ([]string, *reader) {
	r := &reader{}
	var got []string
	for _, line := range lines {
		if a := r.read(line); a.times > 0 {
			text := fmt.Sprintf("%s %s %s", a.user, a.address(), a.outcome)
			if a.times > 1 {
				text += fmt.Sprintf(" x%d", a.times)
			}
			got = append(got, text)
		}
	}
	return got, r
}

func TestReaderReadsEveryFormOfLoginOutcome(t *testing.T) {
	t.Parallel()
	for outcome, logins := range map[string][]struct{ before, after, user string }{
		"failure": {
			{"Failed password for root", "", "root"},
			{"Failed password for invalid user eve", "", "eve"},
			{"Failed password for illegal user eve", "", "eve"},
			{"Failed password for root", "\r\n", "root"},
			{"Failed publickey for root", "", "root"},
			{"Failed publickey for invalid user eve", ": ED25519 SHA256:ab/c+d", "eve"},
			{"Failed keyboard-interactive/pam for invalid user oracle", "", "oracle"},
			{"Failed keyboard-interactive for invalid user oracle", "", "oracle"},
			{"Failed gssapi-with-mic for ann", "", "ann"},
			{"Failed hostbased for ann", `: RSA SHA256:abc, client user "x", client host "y"`, "ann"},
			{
				"Failed publickey for ann", ": RSA-CERT SHA256:abc ID x from 192.0.2.1 port 22 ssh2: (serial 0) CA RSA SHA256:d",
				"ann",
			},
			{"Failed password for invalid user ", "", ""},
			{"Failed password for ", "", ""},
			{"Failed password for invalid user a b  c", "", "a b  c"},
			{"Failed password for invalid user x from 192.0.2.1 port 22", "", "x from 192.0.2.1 port 22"},
			{"Failed password for invalid user root from 192.0.2.1 port 22 ssh2", "", "root from 192.0.2.1 port 22 ssh2"},
			{"Failed password for invalid user root from 192.0.2.1 port 22 ssh2: x", "", "root from 192.0.2.1 port 22 ssh2: x"},
			{
				"Failed publickey for invalid user root from 192.0.2.1 port 22 ssh2: RSA SHA256:x", ": RSA SHA256:abc",
				"root from 192.0.2.1 port 22 ssh2: RSA SHA256:x",
			},
			{"Failed password for invalid user invalid user x", "", "invalid user x"},
			{"Failed password for invalid user", "", "invalid user"},
		},
		"success": {
			{"Accepted password for ann", "", "ann"},
			{"Accepted keyboard-interactive/pam for carol", "", "carol"},
			{"Accepted none for ann", "", "ann"},
			{"Accepted gssapi-with-mic for ann", ": ann@EXAMPLE", "ann"},
			{"Accepted publickey for ann", ": ED25519 SHA256:abc", "ann"},
			{
				"Accepted publickey for ann", ": RSA-CERT SHA256:abc ID x from 192.0.2.1 port 22 ssh2: (serial 0) CA RSA SHA256:d",
				"ann",
			},
		},
	} {
		for _, l := range logins {
			wantRead(t, l.before+" from 203.0.113.9 port 38926 ssh2"+l.after, l.user+" 203.0.113.9 "+outcome)
		}
	}
	for message, want := range map[string]string{
		"Failed password for root from 203.0.113.9 port 38926":                                                     "root 203.0.113.9 failure",
		"Failed password for root from 2001:db8::7 port 22 ssh2":                                                   "root 2001:db8::7 failure",
		"Failed password for root from ::ffff:203.0.113.9 port 22 ssh2":                                            "root 203.0.113.9 failure",
		"Failed password for carol from fe80::1234%lo port 48732 ssh2":                                             "carol fe80::1234 failure",
		"Failed password for root from UNKNOWN port 65535 ssh2":                                                    "root  failure",
		"error: PAM: Authentication failure for carol from 203.0.113.9":                                            "carol 203.0.113.9 failure",
		"error: PAM: User not known to the underlying authentication module for illegal user eve from 2001:db8::7": "eve 2001:db8::7 failure",
		"error: PAM: Have exhausted maximum number of retries for service for carol from 203.0.113.9":              "carol 203.0.113.9 failure",
		"error: PAM: Authentication failure for carol from client.example":                                         "carol  failure",
		"error: PAM: Authentication failure for illegal user a for b from 192.0.2.1 from 203.0.113.9":              "a for b from 192.0.2.1 203.0.113.9 failure",
		"message repeated 5 times: [ Failed password for root from 203.0.113.9 port 22 ssh2]":                      "root 203.0.113.9 failure x5",
		"message repeated 99999 times: [ Failed password for root from 203.0.113.9 port 22 ssh2]":                  "root 203.0.113.9 failure x99999",
		"message repeated 2 times: [ Failed password for invalid user a ] from 203.0.113.9 port 22 ssh2]":          "a ] 203.0.113.9 failure x2",
		"message repeated 2 times: [ error: PAM: Authentication failure for carol from 203.0.113.9]":               "carol 203.0.113.9 failure x2",
	} {
		wantRead(t, message, want)
	}
}

// wantRead fails unless a reader makes one attempt of a message.
func wantRead(t *testing.T, message, want string) {
	t.Helper()
	if got, r := story(stamp + message); len(got) != 1 || got[0] != want || r.skipped.Unread != 0 {
		t.Errorf("%q:\n got %q and %d unread\nwant %q", message, got, r.skipped.Unread, want)
	}
}

func TestReaderUndoesTheEscapesOfSSHD(t *testing.T) {
	t.Parallel()
	for escaped, want := range map[string]string{
		`zo\303\253`: "zoë", "Zoë": "Zoë", `CORP\\zoe`: `CORP\zoe`, `CORP\\303`: `CORP\303`, `a\tb\nc`: "a\tb\nc",
		`a\rb\ac\033`: "a\rb\ac\x1b",
		`x\303`:       `x\303`, `\377\376x`: `\377\376x`, "\xff": `\377`, `\357\277\275`: "\ufffd", `a\`: `a\`,
		`CORP\zoe`: `CORP\zoe`, `\\\\\303\253`: `\\ë`, `\134n`: `\n`,
	} {
		got, _ := story(stamp + "Failed password for invalid user " + escaped + " from ::1 port 47104 ssh2")
		if len(got) != 1 || got[0] != want+" ::1 failure" {
			t.Errorf("%s: got %q, want %q", escaped, got, want)
		}
	}
}

func TestReaderKnowsTheHeadsOfManyLoggers(t *testing.T) {
	t.Parallel()
	for name, head := range map[string]string{
		"BSD syslog":                    "Nov 26 09:07:57 gate sshd[100]: ",
		"day of one digit":              "Jan  2 06:55:48 gate sshd[1]: ",
		"no pid":                        "Dec 10 06:55:48 gate sshd: ",
		"sshd-session":                  "Dec 10 06:55:48 gate sshd-session[7]: ",
		"host with a dot":               "Dec 10 06:55:48 gate.example sshd[7]: ",
		"IPv6 as host":                  "Dec 10 06:55:48 2001:db8::7 sshd[7]: ",
		"with a priority":               "<38>Dec 10 06:55:48 gate sshd[7]: ",
		"with a year":                   "Dec 10 2026 06:55:48 gate sshd[7]: ",
		"rsyslog's file format":         "2026-02-28T23:59:59.123456+02:00 gate sshd[7]: ",
		"ISO time in UTC":               "2026-02-28T23:59:59Z gate sshd[7]: ",
		"syslog-ng, ISO":                "2026-02-28T23:59:59+01:00 gate sshd[7]: ",
		"busybox":                       "Apr 28 13:11:39 router auth.info sshd[27366]: ",
		"busybox -S":                    "Apr 28 13:11:39 sshd[27366]: ",
		"OpenWrt's logread":             "Thu Apr 28 13:11:39 2016 auth.info sshd[27366]: ",
		"AIX":                           "Apr 28 13:11:39 gate auth|security:info sshd[27366]: ",
		"FreeBSD -v":                    "Apr 28 13:11:39 <auth.info> gate sshd[27366]: ",
		"FreeBSD -v, numbers":           "Apr 28 13:11:39 <4.6> gate sshd[27366]: ",
		"journalctl short":              "Nov 22 10:00:02 arch sshd-session[78]: ",
		"journalctl short, German":      "Mär 22 10:00:02 arch sshd-session[78]: ",
		"journalctl short, Japanese":    "11月 22 10:00:02 arch sshd-session[78]: ",
		"journalctl short-precise":      "Nov 22 10:00:02.123456 arch sshd-session[78]: ",
		"journalctl short-iso":          "2026-11-22T10:00:02+0100 arch sshd-session[78]: ",
		"journalctl short-iso-precise":  "2026-11-22T10:00:02.123456+01:00 arch sshd-session[78]: ",
		"journalctl short-full":         "Sun 2026-11-22 10:00:02 CET arch sshd-session[78]: ",
		"journalctl short-full, zone":   "So 2026-11-22 10:00:02 +03 arch sshd-session[78]: ",
		"journalctl short-unix":         "1795341602.123456 arch sshd-session[78]: ",
		"journalctl short-monotonic":    "[  123.456789] arch sshd-session[78]: ",
		"journalctl short-delta":        "[  123.456789 <    1.2 >] arch sshd-session[78]: ",
		"journalctl with-unit":          "Sun 2026-11-22 10:00:02 CET arch ssh.service[78]: ",
		"RFC 5424":                      "<86>1 2026-11-22T10:00:01.858815+00:00 bsd sshd 19873 - - ",
		"RFC 5424 with BOM":             "<86>1 2026-11-22T10:00:01.858815Z bsd sshd 19873 - - \ufeff",
		"RFC 5424 with structured data": `<86>1 2026-11-22T10:00:01Z bsd sshd 19873 ID47 [a@1 x="y\"]"][b@2 z="1"] `,
		"Solaris":                       "Mar 29 05:20:09 dusky sshd[19558]: [ID 800047 auth.info] ",
		"macOS":                         "2026-11-22 10:00:02.123456+0100  localhost sshd[8012]: ",
		"docker compose":                "gate-1  | Nov 26 09:07:57 gate auth.info sshd[100]: ",
	} {
		got, r := story(head + "Failed password for root from 203.0.113.9 port 22 ssh2")
		if len(got) != 1 || got[0] != "root 203.0.113.9 failure" {
			t.Errorf("%s: %q: got %q, %d unread", name, head, got, r.skipped.Unread)
		}
	}
}

func TestReaderPassesOverWhatIsNoAttempt(t *testing.T) {
	t.Parallel()
	for _, line := range []string{
		"", "\n", " ", "x", stamp, strings.TrimSpace(stamp), "Dec 10 06:55:48", "Dec 10 06:55:48 ", "Dec 10 06:55:48 gate",
		stamp + "Invalid user eve from 203.0.113.9 port 22",
		stamp + "Invalid user Failed password for root from 192.0.2.1 port 22 ssh2 from 203.0.113.9 port 22",
		stamp + "Connection closed by 203.0.113.9 [preauth]",
		stamp + "Connection closed by authenticating user carol 203.0.113.9 port 22 [preauth]",
		stamp + "Disconnecting authenticating user carol 203.0.113.9 port 22: Too many authentication failures [preauth]",
		stamp + "error: maximum authentication attempts exceeded for carol from 203.0.113.9 port 22 ssh2 [preauth]",
		stamp + "error: PAM: Authentication failure for zo\\\\303\\\\253 from 203.0.113.9 [preauth]",
		stamp + "Failed none for invalid user eve from 203.0.113.9 port 49811 ssh2",
		stamp + "Postponed keyboard-interactive for carol from 203.0.113.9 port 22 ssh2 [preauth]",
		stamp + "Postponed publickey for carol from 203.0.113.9 port 22 ssh2 [preauth]",
		stamp + "Partial publickey for carol from 203.0.113.9 port 22 ssh2: RSA SHA256:abc",
		stamp + "Accepted key ED25519 SHA256:abc found at /home/ann/.ssh/authorized_keys:1",
		stamp +
			`Accepted certificate ID "x for y from 192.0.2.1 port 1 ssh2" (serial 0) signed by RSA CA SHA256:d via /etc/ca`,
		stamp + "pam_unix(sshd:auth): authentication failure; rhost=203.0.113.9",
		stamp + "PAM 4 more authentication failures; logname= uid=0 euid=0 tty=ssh ruser= rhost=203.0.113.9  user=root",
		stamp + "User carol from 203.0.113.9 not allowed because not listed in AllowUsers",
		stamp + "debug1: PAM: password authentication failed for carol: Authentication failure",
		stamp + "Failed password for root",
		"Dec 10 06:55:48 gate systemd-journald[1]: Suppressed 123 messages from ssh.service",
		"Dec 10 06:55:48 gate su[1]: sshd[1]: Failed password for root from 203.0.113.9 port 22 ssh2",
		"Dec 10 06:55:48 gate sudo: ann : COMMAND=/bin/grep Failed password for root from 203.0.113.9 port 22 ssh2",
		"<86>1 2026-11-22T10:00:01Z gate su 1 - - sshd[1]: Failed password for root from 203.0.113.9 port 22 ssh2",
	} {
		if got, r := story(line); len(got) != 0 || r.skipped.Unread != 0 {
			t.Errorf("%q: read as %q, %d unread", line, got, r.skipped.Unread)
		}
	}
}

func TestReaderCountsUnreadLinesThatLookLikeAttempts(t *testing.T) {
	t.Parallel()
	const message = "Failed password for root from 203.0.113.9 port 22 ssh2"
	for _, line := range []string{
		message,
		"{\"MESSAGE\":\"" + message + "\"}",
		`{"__REALTIME_TIMESTAMP":"1795341602123456","SYSLOG_IDENTIFIER":"openssh","MESSAGE":"` + message + `"}`,
		`{"__REALTIME_TIMESTAMP":"1795341602123456","SYSLOG_IDENTIFIER":["sshd","sshd"],"MESSAGE":"` + message + `"}`,
		"26.11.2026 10:00:00 gate sshd[1]: " + message,
		"error: PAM: Authentication failure for carol from 203.0.113.9",
		"Accepted publickey for ann from 2001:db8::7 port 4 ssh2: ED25519 SHA256:abc",
		"Dec 10 06:55:48 gate openssh[1]: " + message,
		"Dec 10 06:55:48 gate sshd[x]: " + message,
		"Dec 10 06:55:48 gate sshdx[1]: " + message,
		stamp + "Failed password for root from 203.0.113.9",
		stamp + "Failed password for root from 203.0.113.9 port -1 ssh2",
		stamp + message + " and more",
		stamp + "message repeated 0 times: [ " + message + "]",
		stamp + "message repeated 100000 times: [ " + message + "]",
		stamp + "message repeated 2 times: [ " + message,
		stamp + "message repeated 2 times: [ message repeated 2 times: [ " + message + "]]",
	} {
		if got, r := story("noise", line, line); len(got) != 0 || r.skipped.Unread != 2 || r.skipped.FirstUnread != line ||
			!errors.Is(r.skipped.notRead(), ErrUnread) {
			t.Errorf("%q: read as %q, %d unread, first %q", line, got, r.skipped.Unread, r.skipped.FirstUnread)
		}
	}
}

func TestReaderCountsOneFailureFromPAMAndSSHD(t *testing.T) {
	t.Parallel()
	pam := func(pid int, user string) string {
		return fmt.Sprintf("Nov 26 09:07:59 gate sshd[%d]: error: PAM: Authentication failure for %s from 127.0.0.1", pid,
			user)
	}
	failed := func(pid int, method, user string) string {
		return fmt.Sprintf("Nov 26 09:07:59 gate sshd[%d]: Failed %s for %s from 127.0.0.1 port 46288 ssh2", pid, method,
			user)
	}
	const sshPAM = "keyboard-interactive/pam"
	for name, c := range map[string]struct {
		lines []string
		want  []string
	}{
		"PAM alone": {
			[]string{pam(1, "carol"), pam(1, "carol")},
			[]string{"carol 127.0.0.1 failure", "carol 127.0.0.1 failure"},
		},
		"both": {
			[]string{pam(1, "illegal user oracle"), failed(1, sshPAM, "invalid user oracle")},
			[]string{"oracle 127.0.0.1 failure"},
		},
		"twice both": {
			[]string{pam(1, "a"), failed(1, sshPAM, "a"), pam(1, "a"), failed(1, sshPAM, "a")},
			[]string{"a 127.0.0.1 failure", "a 127.0.0.1 failure"},
		},
		"PAM thrice, then both": {
			[]string{pam(1, "a"), pam(1, "a"), failed(1, sshPAM, "a"), failed(1, sshPAM, "a")},
			[]string{"a 127.0.0.1 failure", "a 127.0.0.1 failure", "a 127.0.0.1 failure"},
		},
		"lines of two processes": {
			[]string{pam(1, "a"), pam(2, "a"), "noise", failed(2, sshPAM, "a"), failed(1, sshPAM, "a")},
			[]string{"a 127.0.0.1 failure", "a 127.0.0.1 failure"},
		},
		"another process": {
			[]string{pam(1, "a"), failed(2, sshPAM, "a")},
			[]string{"a 127.0.0.1 failure", "a 127.0.0.1 failure"},
		},
		"another user": {
			[]string{pam(1, "a"), failed(1, sshPAM, "b")},
			[]string{"a 127.0.0.1 failure", "b 127.0.0.1 failure"},
		},
		"another method": {
			[]string{pam(1, "a"), failed(1, "password", "a")},
			[]string{"a 127.0.0.1 failure", "a 127.0.0.1 failure"},
		},
		"another host": {
			[]string{pam(1, "a"), strings.Replace(failed(1, sshPAM, "a"), "gate", "door", 1)},
			[]string{"a 127.0.0.1 failure", "a 127.0.0.1 failure"},
		},
		"a name for the address": {
			[]string{strings.Replace(pam(1, "a"), "127.0.0.1", "localhost", 1), failed(1, sshPAM, "a")},
			[]string{"a  failure"},
		},
		"in RFC 5424": {[]string{
			"<83>1 2026-11-22T10:00:01Z bsd sshd 19873 - - error: PAM: authentication error for a from 127.0.0.1",
			"<86>1 2026-11-22T10:00:01Z bsd sshd 19873 - - Failed keyboard-interactive/pam for a from 127.0.0.1 port 1 ssh2",
		}, []string{"a 127.0.0.1 failure"}},
		"in busybox": {[]string{
			"Apr 28 13:11:39 router auth.err sshd[27366]: error: PAM: Authentication failure for a from 127.0.0.1",
			"Apr 28 13:11:39 router auth.info sshd[27366]: Failed keyboard-interactive/pam for a from 127.0.0.1 port 1 ssh2",
		}, []string{"a 127.0.0.1 failure"}},
		"then a success": {
			[]string{pam(1, "a"), strings.Replace(failed(1, sshPAM, "a"), "Failed", "Accepted", 1)},
			[]string{"a 127.0.0.1 failure", "a 127.0.0.1 success"},
		},
	} {
		if got, r := story(c.lines...); !reflect.DeepEqual(got, c.want) || r.skipped.Unread != 0 {
			t.Errorf("%s: got %q, want %q", name, got, c.want)
		}
	}
}

func TestReaderForgetsOldProcesses(t *testing.T) {
	t.Parallel()
	r := &reader{}
	for pid := range 5 * recentSize {
		r.read(
			fmt.Sprintf("Nov 26 09:07:59 gate%d sshd[%d]: error: PAM: Authentication failure for a from 127.0.0.1", pid, pid))
	}
	if n := len(r.told.newer) + len(r.told.older) + len(r.before.newer) + len(r.before.older); n > 4*recentSize {
		t.Errorf("%d entries are kept", n)
	}
	newest := fmt.Sprintf(
		"Nov 26 09:07:59 gate%d sshd[%d]: Failed keyboard-interactive/pam for a from 127.0.0.1 port 1 ssh2", 4*recentSize,
		4*recentSize)
	if a := r.read(newest); a.times != 0 {
		t.Errorf("a process that wrote %d lines ago is forgotten: %+v", recentSize, a)
	}
}

func TestReaderUnfoldsTheLineBefore(t *testing.T) {
	t.Parallel()
	failed := "Nov 26 09:07:59 gate sshd[1]: Failed password for ann from 127.0.0.1 port 1 ssh2"
	elsewhere := strings.Replace(failed, "gate", "door", 1)
	for again, times := range map[string]int{
		"Nov 26 09:08:09 gate last message repeated 2 times":             2,
		"Nov 26 09:08:09 gate last message repeated 1 time":              1,
		"Nov 26 09:08:09 gate syslogd: last message repeated 3 times":    3,
		"Nov 26 09:08:09 --- last message repeated 4 times ---":          4,
		"Nov 26 09:08:09 <auth.info> gate last message repeated 5 times": 5,
		"2026-11-26T09:08:09+01:00 gate last message repeated 6 times":   6,
		"Nov 26 09:08:09 gate syslog-ng[9]: Last message 'Failed password for ' repeated 7 times, suppressed by syslog-ng " +
			"on gate": 7,
		"Nov 26 09:08:09 gate auth|security:info last message repeated 8 times": 8,
		// any program may write so
		"Nov 26 09:08:09 gate ann[9]: last message repeated 9 times": 0,
		"Nov 26 09:08:09 gate last message repeated x times":         0,
	} {
		want := []string{"ann 127.0.0.1 failure"}
		if times == 1 {
			want = append(want, want[0])
		} else if times > 1 {
			want = append(want, fmt.Sprintf("%s x%d", want[0], times))
		}
		if got, r := story(failed, again); !reflect.DeepEqual(got, want) || r.skipped.Unread != 0 {
			t.Errorf("%s: got %q, want %q", again, got, want)
		}
	}
	const twice = "Nov 26 09:08:09 gate last message repeated 2 times"
	for name, c := range map[string]struct {
		lines []string
		want  int
	}{
		"nothing before": {[]string{twice}, 0},
		"noise before":   {[]string{failed, stamp + "Connection closed by 127.0.0.1", twice}, 1},
		"another host between": {
			[]string{failed, strings.Replace(stamp, "gate", "door", 1) + "Connection closed by 127.0.0.1", twice}, 3,
		},
		"another host's attempt":    {[]string{elsewhere, twice}, 1},
		"told again and again":      {[]string{failed, twice, twice}, 5},
		"another program's message": {[]string{failed, "Nov 26 09:08:00 gate cron[1]: job", twice}, 1},
	} {
		r, got := &reader{}, 0
		for _, line := range c.lines {
			got += r.read(line).times
		}
		if got != c.want {
			t.Errorf("%s: %d attempts, want %d", name, got, c.want)
		}
	}
}
