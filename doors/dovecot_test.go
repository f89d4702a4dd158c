//go:build doors

package doors_test

import (
	"bufio"
	"crypto/hmac"
	"crypto/md5" //nolint:gosec // of CRAM-MD5
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"velocityd/service"
	"velocityd/tools/enginetest"
)

// dovecotMain stands for Debian's dovecot.conf: folders of the test, IMAP alone, and a list of users whose passwords
// are all "right". A refused login is answered at once, however often it was refused.
const dovecotMain = `base_dir = FOLDER/run
state_dir = FOLDER/run
log_path = /dev/stderr
protocols = imap
ssl = no
disable_plaintext_auth = no
auth_mechanisms = plain login cram-md5
auth_failure_delay = 0
default_internal_user = nobody
default_internal_group = nogroup
default_login_user = nobody
first_valid_uid = 0
first_valid_gid = 0
mail_max_userip_connections = 100
mail_location = maildir:FOLDER/mail
passdb {
  driver = static
  args = password=right
}
userdb {
  driver = static
  args = uid=nobody gid=nogroup home=FOLDER/mail
}
service anvil {
  chroot =
  unix_listener anvil-auth-penalty {
    mode = 0
  }
}
service imap-login {
  chroot =
  inet_listener imap {
    address = 127.0.0.1
    port = PORT
  }
}
!include POLICY
`

// dovecot is a Dovecot that asks velocityd.
type dovecot struct {
	doveadm, configuration, address string
	server                          *process
}

func startDovecot(t *testing.T, w *world, replace ...string) dovecot {
	t.Helper()
	runsAsRoot(t, "dovecot")
	d := dovecot{doveadm: gateway(t, "doveadm"), address: freeAddress(t)}
	folder := sharedFolder(t)
	_, port, _ := strings.Cut(d.address, ":")
	policy := w.configure(t, "dovecot/velocityd.conf", d.address, replace...)
	text := strings.NewReplacer("FOLDER", folder, "PORT", port, "POLICY", policy).Replace(dovecotMain)
	d.configuration = filepath.Join(folder, "dovecot.conf")
	if err := os.WriteFile(d.configuration, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	d.server = start(t, nil, gateway(t, "dovecot"), "-F", "-c", d.configuration)
	t.Cleanup(func() { // so that its children end with it
		_ = d.server.command.Process.Signal(syscall.SIGTERM)
		<-d.server.ended
	})
	d.server.await(t, d.address)
	return d
}

// sharedFolder returns a folder for Dovecot, which drops its rights. It has a short path, because those of sockets are
// bounded.
func sharedFolder(t *testing.T) string {
	t.Helper()
	folder, err := os.MkdirTemp("", "dovecot") //nolint:usetesting // see above
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(folder) })
	if err := os.Chmod(folder, 0o777); err != nil { //nolint:gosec // see above
		t.Fatal(err)
	}
	return folder
}

// authTestAddress is the address that users of authTest come from.
const authTestAddress = "203.0.113.9"

// authTest logs in by doveadm, which has no session. ok is false if the login was refused, and reason is what
// the user would see.
func (d dovecot) authTest(t *testing.T, user, password string) (ok bool, reason string) {
	t.Helper()
	command := exec.CommandContext(t.Context(), d.doveadm, "-c", d.configuration, "auth", "test", "-x",
		"rip="+authTestAddress, user, password)
	out, err := command.CombinedOutput()
	if err != nil && command.ProcessState.ExitCode() != 77 {
		t.Fatalf("doveadm auth test: %v\n%s", err, out)
	}
	_, reason, _ = strings.Cut(string(out), "reason=")
	return err == nil, strings.TrimSpace(reason)
}

// session is a connection to the IMAP server.
type session struct {
	net.Conn
	lines *bufio.Reader
}

func (d dovecot) connect(t *testing.T, from string) session {
	t.Helper()
	dialer := &net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(from)}, Timeout: time.Minute}
	conn, err := dialer.DialContext(t.Context(), "tcp", d.address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	_ = conn.SetDeadline(time.Now().Add(time.Minute))
	s := session{conn, bufio.NewReader(conn)}
	s.line(t)
	return s
}

func (s session) line(t *testing.T) string {
	t.Helper()
	line, err := s.lines.ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(line)
}

// say sends a line, and returns the next one that is not about something else.
func (s session) say(t *testing.T, line string) string {
	t.Helper()
	if _, err := io.WriteString(s, line+"\r\n"); err != nil {
		t.Fatal(err)
	}
	for {
		if answer := s.line(t); !strings.HasPrefix(answer, "* ") {
			return answer
		}
	}
}

// plain logs in with the password itself, cramMD5 with a proof of it. Both return the answer without its tag.
func (s session) plain(t *testing.T, user, password string) string {
	t.Helper()
	proof := base64.StdEncoding.EncodeToString([]byte("\x00" + user + "\x00" + password))
	return strings.TrimPrefix(s.say(t, "a AUTHENTICATE PLAIN "+proof), "a ")
}

func (s session) cramMD5(t *testing.T, user, password string) string {
	t.Helper()
	challenge, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(s.say(t, "a AUTHENTICATE CRAM-MD5"), "+ "))
	if err != nil {
		t.Fatal(err)
	}
	mac := hmac.New(md5.New, []byte(password))
	mac.Write(challenge)
	proof := user + " " + hex.EncodeToString(mac.Sum(nil))
	return strings.TrimPrefix(s.say(t, base64.StdEncoding.EncodeToString([]byte(proof))), "a ")
}

// hasOutcomes waits until a user has so many txns of each outcome.
func (w *world) hasOutcomes(t *testing.T, user string, successes, failures, others int) {
	t.Helper()
	want := fmt.Sprint(successes, failures, others)
	enginetest.Eventually(t, user+" has "+want+" successes, failures, and txns without an outcome", func() bool {
		counts := map[service.Outcome]int{}
		for _, txn := range w.db.Txns(t, service.Bucket{ZoneID: userZone, Key: user}) {
			counts[txn.Outcome]++
		}
		return fmt.Sprint(counts[service.OutcomeSuccess], counts[service.OutcomeFailure], counts[""]) == want
	})
}

func TestDovecotRefusesTheGuessBeyondTheRate(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "--require-auth")
	d := startDovecot(t, w)
	for name, logIn := range map[string]func(session, *testing.T, string, string) string{
		"plain":    session.plain,
		"cram-md5": session.cramMD5,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			from := map[string]string{"plain": "127.0.1.1", "cram-md5": "127.0.1.2"}[name]
			for i := range 2*userRate + 1 {
				if got := logIn(d.connect(t, from), t, "alice-"+name, right); !strings.HasPrefix(got, "OK") {
					t.Fatalf("login %d: %s, want OK: a success gives its place back", i+1, got)
				}
			}
			w.hasOutcomes(t, "alice-"+name, 2*userRate+1, 0, 0)

			mallory, guesses := "mallory-"+name, 0
			for guesses < userRate {
				s := d.connect(t, from)
				for range min(2, userRate-guesses) { // two guesses of one password in a connection
					if got := logIn(s, t, mallory, "guess"); !strings.HasPrefix(got, "NO [AUTHENTICATIONFAILED]") {
						t.Fatalf("a wrong password: %s", got)
					}
					guesses++
					w.hasOutcomes(t, mallory, 0, guesses, 0)
				}
			}
			if got := logIn(d.connect(t, from), t, mallory, right); got != "NO [ALERT] Too many attempts. Try again later." {
				t.Errorf("the right password beyond the rate: %s", got)
			}
			w.hasOutcomes(t, mallory, 0, userRate, 1)

			s := d.connect(t, from)
			logIn(s, t, "carol-"+name, "guess")
			w.hasOutcomes(t, "carol-"+name, 0, 1, 0)
			if got := logIn(s, t, "carol-"+name, right); !strings.HasPrefix(got, "OK") {
				t.Errorf("the right password after a wrong one: %s", got)
			}
			w.hasOutcomes(t, "carol-"+name, 1, 1, 0)
		})
	}
}

func TestDovecotRefusesByDefaultWithoutVelocityd(t *testing.T) {
	t.Parallel()
	for name, at := range map[string]string{"refuses connections": freeAddress(t), "is silent": silent(t), "is busy": busy(t)} {
		if ok, _ := startDovecot(t, away(t, at)).authTest(t, "alice", right); ok {
			t.Errorf("velocityd %s: the login passes", name)
		}
		if ok, reason := startDovecot(t, away(t, at), open()...).authTest(t, "alice", right); !ok {
			t.Errorf("velocityd %s, fail open: %s", name, reason)
		}
	}
}

// TestDovecotAsksOverTLSWithTokenInAddress has Dovecot ask with Basic, as weakforced wants it.
func TestDovecotAsksOverTLSWithTokenInAddress(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	secure, tls := w.overTLS(t)
	ca := filepath.Join(sharedFolder(t), "ca.pem")
	if err := os.WriteFile(ca, []byte(text(t, tls.ca)), 0o644); err != nil { //nolint:gosec // Dovecot reads it with few rights
		t.Fatal(err)
	}
	d := startDovecot(t, secure, "http://127.0.0.1:8080", "https://dovecot:"+w.token+"@"+secure.address,
		"auth_policy_server_api_header", "#", "# tls: ", "", "/etc/dovecot/velocityd-ca.pem", ca)
	if ok, reason := d.authTest(t, "alice", right); !ok {
		t.Fatalf("the login is refused: %s", reason)
	}
	w.hasOutcomes(t, "alice", 1, 0, 0)
}

func TestDovecotsLogNamesAWrongToken(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "--require-auth")
	d := startDovecot(t, away(t, w.address))
	if ok, _ := d.authTest(t, "alice", right); ok {
		t.Error("the login passes")
	}
	d.server.awaitLine(t, "Policy server HTTP error: 401")
}
