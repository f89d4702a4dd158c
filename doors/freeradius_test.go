//go:build doors

package doors_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"velocityd/service"
)

// radiusMain stands for Debian's radiusd.conf: the programs' own folders, one NAS and one list of users.
const radiusMain = `prefix = ROOT/usr
libdir = ROOT/usr/lib/freeradius
logdir = .
raddbdir = FOLDER
run_dir = .
max_request_time = 10
security {
	max_attributes = 200
	reject_delay = 0
	status_server = no
}
thread pool {
	start_servers = 2
	max_servers = 4
	min_spare_servers = 1
	max_spare_servers = 2
	max_requests_per_server = 0
}
client nas {
	ipaddr = 127.0.0.1
	secret = radius-secret
}
modules {
	files {
		filename = FOLDER/users
	}
	pap {
	}
	expr {
	}
	$INCLUDE MODULE
}
policy {
	$INCLUDE POLICY
}
$INCLUDE SITE
`

// radius is a FreeRADIUS with velocityd in front of its passwords, which are all "right".
type radius struct {
	radclient, dictionary, address string
	server                         *process
}

func startFreeRADIUS(t *testing.T, w *world, replace ...string) radius {
	t.Helper()
	program, listen, folder := gateway(t, "freeradius"), freeAddress(t), t.TempDir()
	root := filepath.Dir(filepath.Dir(program))
	_, port, _ := strings.Cut(listen, ":")
	module := w.configure(t, "freeradius/velocityd", listen, replace...)
	policy := w.configure(t, "freeradius/policy", listen, replace...)
	site := w.configure(t, "freeradius/site", listen, append(replace, "port = 1812", "port = "+port)...)
	main := strings.NewReplacer("ROOT", root, "FOLDER", folder, "MODULE", module, "POLICY", policy, "SITE", site).Replace(
		radiusMain)
	for name, text := range map[string]string{
		"radiusd.conf": main, "users": "DEFAULT Cleartext-Password := \"right\"\n", "dictionary": "",
	} {
		if err := os.WriteFile(filepath.Join(folder, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	r := radius{gateway(t, "radclient"), filepath.Join(root, "usr/share/freeradius"), listen, nil}
	r.server = start(t, []string{"VELOCITY_TOKEN=" + w.token}, program, "-f", "-X", "-d", folder, "-D", r.dictionary)
	r.server.awaitLine(t, "Ready to process requests")
	return r
}

// login asks FreeRADIUS as a NAS does, and returns the kind of its answer: Access-Accept or Access-Reject.
func (r radius) login(t *testing.T, user, password string) string {
	t.Helper()
	quoted := strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(user)
	command := exec.CommandContext(t.Context(), r.radclient, "-x", "-r", "1", "-t", "30", "-D", r.dictionary,
		r.address, "auth", "radius-secret")
	command.Stdin = strings.NewReader(fmt.Sprintf("User-Name = \"%s\"\nUser-Password = \"%s\"\n", quoted, password))
	out, _ := command.CombinedOutput() // a reject is an exit code, too
	for _, answer := range []string{"Access-Accept", "Access-Reject"} {
		if strings.Contains(string(out), "Received "+answer) {
			return answer
		}
	}
	t.Fatalf("no answer for %s:\n%s", user, out)
	return ""
}

func TestFreeRADIUSRejectsTheGuessBeyondTheRate(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "--require-auth")
	r := startFreeRADIUS(t, w)
	for i := range 2*userRate + 1 {
		if got := r.login(t, "alice", right); got != "Access-Accept" {
			t.Fatalf("login %d: %s, want Access-Accept: a success gives its place back", i+1, got)
		}
	}
	w.hasOutcomes(t, "alice", 2*userRate+1, 0, 0)
	for range userRate {
		if got := r.login(t, "mallory", "guess"); got != "Access-Reject" {
			t.Fatalf("a wrong password: %s, want Access-Reject", got)
		}
	}
	if got := r.login(t, "mallory", right); got != "Access-Reject" {
		t.Errorf("the right password beyond the rate: %s, want Access-Reject", got)
	}
	if n := len(w.db.Txns(t, service.Bucket{ZoneID: userZone, Key: "mallory"})); n != userRate+1 {
		t.Errorf("mallory has %d txns, want %d", n, userRate+1)
	}
	for _, name := range []string{`o'brien "the" admin`, "a b", "100%41+x", "zoë 名", "a&user=c;d", "%{User-Password}"} {
		if got := r.login(t, name, right); got != "Access-Accept" {
			t.Errorf("%q: %s, want Access-Accept", name, got)
		}
		if n := len(w.db.Txns(t, service.Bucket{ZoneID: userZone, Key: strings.ToLower(name)})); n != 1 {
			t.Errorf("%q has %d txns, want 1", name, n)
		}
	}
}

func TestFreeRADIUSRejectsByDefaultWithoutVelocityd(t *testing.T) {
	t.Parallel()
	for name, at := range map[string]string{"refuses": freeAddress(t), "is silent": silent(t)} {
		if got := startFreeRADIUS(t, away(t, at)).login(t, "alice", right); got != "Access-Reject" {
			t.Errorf("the address %s connections: %s, want Access-Reject", name, got)
		}
		if got := startFreeRADIUS(t, away(t, at), open()...).login(t, "alice", right); got != "Access-Accept" {
			t.Errorf("the address %s connections, fail open: %s, want Access-Accept", name, got)
		}
	}
}

func TestFreeRADIUSRejectsWithTokenUnknownToVelocityd(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "--require-auth")
	if got := startFreeRADIUS(t, away(t, w.address)).login(t, "alice", right); got != "Access-Reject" {
		t.Errorf("%s, want Access-Reject", got)
	}
	if !strings.Contains(w.velocity.log(t), "The gateway has not proved its identity") {
		t.Errorf("the log does not say why:\n%s", w.velocity.log(t))
	}
}
