//go:build doors

package doors_test

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"velocityd/api"
	"velocityd/service"
	"velocityd/tools/enginetest"
)

// jail is a fail2ban that watches a log of sshd.
type jail struct {
	folder string
	log    string // the log of sshd
	server *process
	pid    int // of the newest sshd in its log: fail2ban takes the lines of one for one connection
}

// newJail starts fail2ban with the files of the page, and more settings of the jail.
func newJail(t *testing.T, w *world, settings ...string) *jail {
	t.Helper()
	runsAsRoot(t, "fail2ban-server")
	j := &jail{folder: filepath.Join(t.TempDir(), "fail2ban")}
	j.log = filepath.Join(j.folder, "auth.log")
	if err := os.CopyFS(j.folder, os.DirFS(filepath.Join(os.Getenv("VELOCITY_DOORS"), "../etc/fail2ban"))); err != nil {
		t.Fatal(err)
	}
	names := strings.NewReplacer(append(w.names(""), "= velocityd override", "= "+velocityd(t)+" override",
		"/etc/velocityd/fail2ban.token", filepath.Join(j.folder, "token"))...)
	test := "[sshd]\nbackend = polling\nlogpath = " + j.log + "\nmaxretry = 3\n" + strings.Join(settings, "\n") + "\n"
	for path, content := range map[string]string{
		"token": w.run(t, "token", "create", "fail2ban", "--scope", "peek,overrides"), "auth.log": "",
		"action.d/velocityd.conf": names.Replace(text(t, "fail2ban/velocityd.conf")),
		"jail.d/velocityd.conf":   text(t, "fail2ban/jail.conf"),
		"fail2ban.local": "[Definition]\nlogtarget = stdout\ndbfile = " +
			filepath.Join(j.folder, "bans.sqlite3") + "\n",
		"jail.d/velocityd.local":      test,
		"jail.d/defaults-debian.conf": "",
	} {
		if err := os.WriteFile(filepath.Join(j.folder, path), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	j.start(t)
	return j
}

// files are the arguments by which both programs of fail2ban use the folder alone.
func (j *jail) files() []string {
	return []string{"-c", j.folder, "-s", filepath.Join(j.folder, "socket"), "-p", filepath.Join(j.folder, "pid")}
}

// start starts fail2ban, and waits until it watches the log.
func (j *jail) start(t *testing.T) {
	t.Helper()
	j.server = start(t, nil, gateway(t, "fail2ban-server"), append(j.files(), "-f", "-x", "start")...)
	j.server.awaitLine(t, "Jail 'sshd' started")
}

// ask runs fail2ban-client.
func (j *jail) ask(t *testing.T, args ...string) {
	t.Helper()
	if out, err := exec.CommandContext(t.Context(), gateway(t, "fail2ban-client"),
		append(j.files(), args...)...).CombinedOutput(); err != nil {
		t.Fatalf("fail2ban-client %s: %v\n%s", args, err, out)
	}
}

// guess lets sshd's log tell of wrong passwords from an address.
func (j *jail) guess(t *testing.T, from string, times int) {
	t.Helper()
	log, err := os.OpenFile(j.log, os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	for range times {
		j.pid++
		fmt.Fprintf(log, "%s host sshd[%d]: Failed password for root from %s port 40000 ssh2\n",
			time.Now().Format(time.Stamp), j.pid, from)
	}
}

// awaitOverride waits until the override of an address, or of its network, is as wanted: nil means that there is none.
func (w *world) awaitOverride(t *testing.T, target string, wanted func(*service.Override) bool) {
	t.Helper()
	enginetest.Eventually(t, "the override of "+target+" is as wanted", func() bool {
		var list api.Overrides
		if err := json.Unmarshal([]byte(w.run(t, "override", "list", "2", "--json")), &list); err != nil {
			t.Fatal(err)
		}
		for _, o := range list.Overrides {
			if o.Key == target || o.Prefix.String() == target {
				return wanted(&o)
			}
		}
		return wanted(nil)
	})
}

// isOf reports whether an override is a ban of a jail.
func isOf(o *service.Override, jail string) bool {
	return o != nil && o.Action == service.OverrideDeny && strings.HasPrefix(o.Reason, "fail2ban "+jail+" on ")
}

func isGone(o *service.Override) bool { return o == nil }

func TestFail2banBansAreOverridesWhileActive(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "--require-auth")
	j := newJail(t, w, "bantime = 1h")
	isBan := func(o *service.Override) bool {
		return o != nil && o.Action == service.OverrideDeny && isOf(o, "sshd") &&
			time.Until(o.ExpiresAt.Time).Round(10*time.Minute) == time.Hour
	}
	j.guess(t, "203.0.113.9", 3)
	j.guess(t, "2001:db8::7", 3)
	j.guess(t, "203.0.113.10", 2)
	w.awaitOverride(t, "203.0.113.9", isBan)
	w.awaitOverride(t, "2001:db8::/64", isBan)
	w.awaitOverride(t, "203.0.113.10", isGone)

	j.ask(t, "set", "sshd", "unbanip", "203.0.113.9")
	w.awaitOverride(t, "203.0.113.9", isGone)
	w.awaitOverride(t, "2001:db8::/64", isBan)

	j.ask(t, "stop") // which lifts all bans, and a start takes them up again
	<-j.server.ended
	w.awaitOverride(t, "2001:db8::/64", isGone)
	j.start(t)
	w.awaitOverride(t, "2001:db8::/64", isBan)
}

func TestEndlessFail2banBanHasNoEnd(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "--require-auth")
	j := newJail(t, w, "bantime = -1")
	j.guess(t, "203.0.113.9", 3)
	w.awaitOverride(t, "203.0.113.9", func(o *service.Override) bool { return o != nil && o.ExpiresAt.IsZero() })
}

func TestOfTwoJailsTheLaterEndStays(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "--require-auth")
	j := newJail(t, w, "bantime = 1h", "[recidive]", "enabled = true", "action = velocityd", "backend = polling",
		"logpath = "+os.DevNull, "bantime = 1w")
	j.server.awaitLine(t, "Jail 'recidive' started")
	ask := func(jail, what, address string) {
		t.Helper()
		j.ask(t, "set", jail, what+"ip", address)
	}
	ofSSHD := func(o *service.Override) bool { return isOf(o, "sshd") && time.Until(o.ExpiresAt.Time) < 2*time.Hour }
	ofRecidive := func(o *service.Override) bool {
		return isOf(o, "recidive") && time.Until(o.ExpiresAt.Time) > 6*24*time.Hour
	}
	for _, address := range []string{"203.0.113.9", "2001:db8::7"} {
		bucket := address
		if strings.Contains(address, ":") {
			bucket = "2001:db8::/64"
		}
		ask("sshd", "ban", address)
		w.awaitOverride(t, bucket, ofSSHD)
		ask("recidive", "ban", address)
		w.awaitOverride(t, bucket, ofRecidive)
		ask("sshd", "unban", address)
		j.server.awaitLine(t, "[sshd] Unban "+address)
		w.awaitOverride(t, bucket, ofRecidive)
		ask("recidive", "unban", address)
		w.awaitOverride(t, bucket, isGone)
	}
	if log := j.server.log(t); strings.Contains(log, " ERROR ") {
		t.Errorf("fail2ban logs an error:\n%s", log)
	}
}
