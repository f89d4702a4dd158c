//go:build doors

package doors_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"velocityd/service"
	"velocityd/service/access"
)

// rightHash is the password "right" as shadow(5) has it.
const rightHash = "$6$velocityd$IOFB8DB.hd9KzLAUjbCY/kg1CYB/uqqYu4iO84W/6kYYZMRLe17pC8YHJy4WyicbcEF1nXnT4kjxfazvdw86/0"

// enterHost runs a program in a mount namespace with the /etc of a test in front of the machine's, and nothing in /run
// and in the folder of logs.
const enterHost = `#!/bin/sh
exec unshare --mount sh -ec '
  mount -t overlay overlay -o "lowerdir=ETC:/etc" /etc
  mount -t tmpfs -o mode=755 tmpfs /run
  mount -t tmpfs -o mode=755 tmpfs /var/log
  mkdir /run/sshd
  exec "$@"' sh "$@"
`

// sshdMain stands for Debian's sshd_config: the port of the test, and keys of all users in one file.
const sshdMain = `Include /etc/ssh/sshd_config.d/velocityd.conf
ListenAddress ADDRESS
HostKey /etc/ssh/host_key
AuthorizedKeysFile /etc/ssh/users_key.pub
StrictModes no
PidFile none
PrintMotd no
PasswordAuthentication yes
KbdInteractiveAuthentication yes
`

// host is a machine whose logins PAM limits.
type host struct {
	etc, enter, address string
	server              *process
}

// newHost makes the machine with users, whose passwords are all "right".
func newHost(t *testing.T, w *world, replace ...string) host {
	t.Helper()
	runsAsRoot(t, "sshd")
	folder := t.TempDir()
	h := host{etc: filepath.Join(folder, "etc"), enter: filepath.Join(folder, "enter"), address: freeAddress(t)}
	replace = append(replace, "/usr/bin/velocityd", velocityd(t))
	shown := func(name string) string {
		return strings.NewReplacer(slices.Concat(replace, w.names(h.address))...).Replace(text(t, "pam/"+name))
	}
	packaged, err := os.ReadFile(filepath.Join(os.Getenv("VELOCITY_DOORS"), "../etc/pam.d/sshd"))
	if err != nil {
		t.Fatal(err)
	}
	passwd, shadow := "root:x:0:0::/root:/bin/sh\nsshd:x:64000:65534::/run/sshd:/usr/sbin/nologin\n",
		"root:*:20000::::::\nsshd:*:20000::::::\n"
	for i, user := range []string{"alice", "bob", "carol", "dave", "mallory"} {
		passwd += fmt.Sprintf("%s:x:%d:65534::/:/bin/sh\n", user, 64001+i)
		shadow += user + ":" + rightHash + ":20000::::::\n"
	}
	for name, text := range map[string]string{
		"etc/passwd": passwd, "etc/shadow": shadow, "etc/nsswitch.conf": "passwd: files\nshadow: files\ngroup: files\n",
		"etc/pam.d/sshd": strings.NewReplacer("@include common-auth\n", shown("sshd"),
			"@include common-account\n", "").Replace(string(packaged)),
		"etc/velocityd/pam.yaml":  shown("pam.yaml"),
		"etc/velocityd/pam.token": w.token,
		"etc/ssh/sshd_config": strings.ReplaceAll(sshdMain, "ListenAddress ADDRESS",
			"ListenAddress "+h.address),
		"etc/ssh/sshd_config.d/velocityd.conf": shown("velocityd.conf"),
		"enter":                                strings.ReplaceAll(enterHost, "ETC", h.etc),
	} {
		h.write(t, filepath.Join(folder, name), text)
	}
	for _, key := range []string{"host_key", "users_key"} {
		command := exec.CommandContext(t.Context(), gateway(t, "ssh-keygen"), "-q", "-t", "ed25519", "-N", "", "-f",
			filepath.Join(h.etc, "ssh", key))
		if out, err := command.CombinedOutput(); err != nil {
			t.Fatalf("ssh-keygen: %v\n%s", err, out)
		}
	}
	return h
}

// write writes a file that others than root cannot write, with any umask.
func (h host) write(t *testing.T, path, text string) {
	t.Helper()
	mode := os.FileMode(0o644)
	switch filepath.Base(path) {
	case "enter":
		mode = 0o755
	case "shadow", "pam.token":
		mode = 0o600
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil { //nolint:gosec // as in /etc
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), mode); err != nil {
		t.Fatal(err)
	}
}

// startSSHD starts the sshd of a host.
func startSSHD(t *testing.T, w *world, replace ...string) host {
	t.Helper()
	h := newHost(t, w, replace...)
	h.server = start(t, nil, h.enter, gateway(t, "sshd"), "-D", "-e", "-f", "/etc/ssh/sshd_config")
	h.server.await(t, h.address)
	return h
}

// logIn logs a user in by a list of methods, and types the passwords one after the other in one connection.
func (h host) logIn(t *testing.T, from, user, methods string, passwords ...string) bool {
	t.Helper()
	folder := t.TempDir()
	h.write(t, filepath.Join(folder, "passwords"), strings.Join(passwords, "\n")+"\n")
	h.write(t, filepath.Join(folder, "type", "enter"), "#!/bin/sh\nsed -n 1p '"+folder+"/passwords'; sed -i 1d '"+folder+
		"/passwords'\n")
	host, port, _ := strings.Cut(h.address, ":")
	args := []string{"-F", "none", "-T", "-b", from, "-p", port, "-i", filepath.Join(h.etc, "ssh/users_key")}
	for _, option := range []string{
		"StrictHostKeyChecking=no", "UserKnownHostsFile=/dev/null", "LogLevel=ERROR", "PreferredAuthentications=" + methods,
		fmt.Sprint("NumberOfPasswordPrompts=", len(passwords)),
	} {
		args = append(args, "-o", option)
	}
	command := exec.CommandContext(t.Context(), gateway(t, "ssh"), append(args, user+"@"+host, "echo", "in")...)
	command.Env = append(os.Environ(), "SSH_ASKPASS="+filepath.Join(folder, "type", "enter"), "SSH_ASKPASS_REQUIRE=force",
		"SSH_AUTH_SOCK=")
	out, err := command.CombinedOutput()
	if _, isExit := err.(*exec.ExitError); err != nil && !isExit { //nolint:errorlint // Wait gives it as it is
		t.Fatal(err)
	}
	if text := string(out); err == nil != strings.HasSuffix(text, "in\n") || err != nil &&
		!strings.Contains(text, "Permission denied") &&
		!strings.Contains(text, "Too many authentication failures") {
		t.Fatalf("ssh of %s: %v\n%s", user, err, out)
	}
	return err == nil
}

func TestSSHDRefusesTheGuessBeyondTheRate(t *testing.T) {
	t.Parallel()
	for method, claim := range map[string]struct {
		from     string
		reported int // of the tries before a success in a connection
	}{"password": {"127.0.1.1", 1}, "keyboard-interactive": {"127.0.1.2", 0}} {
		t.Run(method, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, "--require-auth")
			h := startSSHD(t, w)
			for i := range userRate + 1 {
				if !h.logIn(t, claim.from, "alice", method, right) {
					t.Fatalf("login %d is refused: a success gives its place back", i+1)
				}
			}
			w.hasOutcomes(t, "alice", userRate+1, 0, 0)

			if h.logIn(t, claim.from, "mallory", method, "a", "b", "c") || h.logIn(t, claim.from, "mallory", method, "d", "e") {
				t.Fatal("a wrong password is let in")
			}
			w.hasOutcomes(t, "mallory", 0, 0, userRate)
			if h.logIn(t, claim.from, "mallory", method, right) {
				t.Error("the right password beyond the rate is let in")
			}
			w.hasOutcomes(t, "mallory", 0, 0, userRate+1)

			if !h.logIn(t, claim.from, "carol", method, "guess", right) {
				t.Error("the right password after a wrong one is refused")
			}
			w.hasOutcomes(t, "carol", 1, claim.reported, 1-claim.reported)
			if h.logIn(t, claim.from, "nobody-knows", method, right) {
				t.Error("an unknown user is let in")
			}
			w.hasOutcomes(t, "nobody-knows", 0, 0, 1)
			if n := len(w.db.Txns(t, service.Bucket{ZoneID: addressZone, Key: claim.from})); n != 2*userRate+5 {
				t.Errorf("the address has %d txns, want %d", n, 2*userRate+5)
			}
			if log := h.server.log(t); !strings.Contains(log, "exit code 3") && strings.Contains(log, "exit code") {
				t.Errorf("the log has another exit code than that of a blocked try:\n%s", log)
			}
		})
	}
}

func TestKeysBesidePasswordsAreUnlimitedAndUnreported(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "--require-auth")
	h := startSSHD(t, w)
	for range userRate + 1 {
		if !h.logIn(t, "127.0.1.3", "dave", "publickey") {
			t.Fatal("a key is refused")
		}
	}
	w.hasOutcomes(t, "dave", 0, 0, 0)
	for _, method := range []string{"password", "keyboard-interactive"} {
		if !h.logIn(t, "127.0.1.3", "dave", method+",publickey", "guess") {
			t.Fatal("a key behind a wrong password is refused")
		}
	}
	w.hasOutcomes(t, "dave", 0, 0, 2)
	for h.logIn(t, "127.0.1.3", "dave", "password", "guess") ||
		len(w.db.Txns(t, service.Bucket{ZoneID: userZone, Key: "dave"})) < userRate {
		continue
	}
	if h.logIn(t, "127.0.1.3", "dave", "password", right) {
		t.Error("a password beyond the rate is let in")
	}
	if !h.logIn(t, "127.0.1.3", "dave", "publickey") {
		t.Error("a key of a blocked user is refused")
	}
}

func TestSSHDRefusesPasswordsByDefaultWithoutVelocityd(t *testing.T) {
	t.Parallel()
	for name, at := range map[string]string{"refuses connections": freeAddress(t), "is silent": silent(t)} {
		w := away(t, at)
		w.token = access.NewToken().Reveal()
		if h := startSSHD(t, w); h.logIn(t, "127.0.1.4", "alice", "password", right) {
			t.Errorf("velocityd %s: the login passes", name)
		} else if !h.logIn(t, "127.0.1.4", "alice", "publickey") {
			t.Errorf("velocityd %s: a key is refused", name)
		}
		if h := startSSHD(t, w, "on-error: deny\n# open: ", ""); !h.logIn(t, "127.0.1.4", "alice", "password", right) {
			t.Errorf("velocityd %s, fail open: the login is refused", name)
		}
	}
}
