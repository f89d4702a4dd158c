//go:build doors

package doors_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"velocityd/db/dbtest"
	"velocityd/service"
)

// lapiSettings are those of a CrowdSec that is its local API alone, in the folder FOLDER.
const lapiSettings = `common: {daemonize: false, log_media: stdout, log_level: info}
config_paths: {config_dir: FOLDER, data_dir: FOLDER, simulation_path: FOLDER/simulation.yaml, hub_dir: FOLDER, index_path: FOLDER/hub.json,
  notification_dir: FOLDER, plugin_dir: FOLDER}
db_config: {type: sqlite, db_path: FOLDER/crowdsec.db, use_wal: true}
api: {client: {credentials_path: FOLDER/machine.yaml}, server: {listen_uri: "LISTEN", profiles_path: FOLDER/profiles.yaml}}
prometheus: {enabled: false}
`

// crowdSec is a CrowdSec, and the settings of a sync with it.
type crowdSec struct {
	folder string // config.yaml is CrowdSec's, crowdsec.yaml that of the page, for velocityd sync crowdsec
	server *process
}

// newCrowdSec starts CrowdSec's local API, and makes a key for a bouncer.
func newCrowdSec(t *testing.T, w *world) *crowdSec {
	t.Helper()
	runsAsRoot(t, "crowdsec")
	folder, listen := t.TempDir(), freeAddress(t)
	c := &crowdSec{folder: folder}
	names := strings.NewReplacer(append(w.names(""), "FOLDER", folder, "LISTEN", listen, "127.0.0.1:8081", listen,
		"/etc/velocityd/", folder+"/")...)
	write := func(name, content string) {
		if err := os.WriteFile(filepath.Join(folder, name), []byte(names.Replace(content)), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("config.yaml", lapiSettings)
	write("crowdsec.yaml", text(t, "crowdsec/crowdsec.yaml"))
	write("hub.json", "{}")
	write("machine.yaml", "")
	for _, name := range []string{"simulation.yaml", "profiles.yaml"} {
		write(name, text(t, filepath.Join(os.Getenv("VELOCITY_DOORS"), "../etc/crowdsec", name)))
	}
	write("crowdsec.token", w.run(t, "token", "create", "crowdsec", "--scope", "peek,overrides"))
	c.cli(t, "machines", "add", "test", "--password", "test", "-f", filepath.Join(folder, "machine.yaml"), "--force")
	write("crowdsec.key", c.cli(t, "bouncers", "add", "test", "-o", "raw"))
	c.server = start(t, nil, gateway(t, "crowdsec"), "-c", filepath.Join(folder, "config.yaml"), "-no-cs")
	c.server.await(t, listen)
	return c
}

// cli runs cscli, and returns what it prints.
func (c *crowdSec) cli(t *testing.T, args ...string) string {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), gateway(t, "cscli"), append([]string{"-c", filepath.Join(c.folder, "config.yaml")}, args...)...).Output()
	if err != nil {
		t.Fatalf("cscli %s: %v\n%s", args, err, out)
	}
	return string(out)
}

func TestBansOfCrowdSecAreOverridesUntilTheyEnd(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "--require-auth")
	w.run(t, "override", "set", "2", "203.0.113.2", "--action", "allow", "--reason", "our office")
	c := newCrowdSec(t, w)
	is := func(action service.OverrideAction, reason string) func(*service.Override) bool {
		return func(o *service.Override) bool { return o != nil && o.Action == action && o.Reason == reason }
	}
	isBan := is(service.OverrideDeny, "crowdsec: guessing")
	ban := func(args ...string) {
		c.cli(t, append([]string{"decisions", "add", "--reason", "guessing"}, args...)...)
	}
	ban("--ip", "203.0.113.1")
	ban("--ip", "203.0.113.2")
	ban("--ip", "2001:db8::7")
	ban("--range", "198.51.100.0/24", "--duration", "48h")
	ban("--ip", "203.0.113.3", "--type", "captcha")
	ban("--scope", "username", "--value", "Bob")

	sync := func() *process {
		return start(t, nil, velocityd(t), "sync", "crowdsec", "--config", filepath.Join(c.folder, "crowdsec.yaml"), "--interval", "1s", "--user-zone", fmt.Sprint(userZone))
	}
	first := sync()
	for target, wanted := range map[string]func(*service.Override) bool{
		"203.0.113.1": isBan, "203.0.113.2": is(service.OverrideAllow, "our office"), "2001:db8::/64": isBan, "198.51.100.0/24": isBan,
		"203.0.113.3": isGone,
	} {
		w.awaitOverride(t, target, wanted)
	}
	dbtest.Eventually(t, "bob is denied", func() bool {
		return strings.Contains(w.run(t, "override", "list", fmt.Sprint(userZone)), "crowdsec: guessing")
	})

	c.cli(t, "decisions", "delete", "--ip", "203.0.113.1")
	c.cli(t, "decisions", "delete", "--ip", "203.0.113.2")
	ban("--ip", "203.0.113.4", "--duration", "3s")
	w.awaitOverride(t, "203.0.113.1", isGone)
	first.awaitLine(t, `"removed":1`)
	w.awaitOverride(t, "203.0.113.4", isBan)
	w.awaitOverride(t, "203.0.113.4", isGone) // its end takes the override away
	w.awaitOverride(t, "203.0.113.2", is(service.OverrideAllow, "our office"))

	first.stop() // while it is away, a ban ends early, and another one comes
	c.cli(t, "decisions", "delete", "--range", "198.51.100.0/24")
	ban("--ip", "203.0.113.5")
	w.awaitOverride(t, "198.51.100.0/24", isBan)
	sync()
	w.awaitOverride(t, "203.0.113.5", isBan)
	w.awaitOverride(t, "198.51.100.0/24", isGone)
	w.awaitOverride(t, "2001:db8::/64", isBan)
}

func TestASyncThatCanNotAskSaysWhy(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "--require-auth")
	c := newCrowdSec(t, w)
	once := func(args ...string) string {
		command := exec.CommandContext(t.Context(), velocityd(t), append([]string{"sync", "crowdsec", "--config", filepath.Join(c.folder, "crowdsec.yaml"), "--once"}, args...)...)
		out, err := command.CombinedOutput()
		if err == nil {
			t.Errorf("%s: the exit code is 0", args)
		}
		return string(out)
	}
	wrong := filepath.Join(t.TempDir(), "wrong")
	if err := os.WriteFile(wrong, []byte("wrong"), 0o600); err != nil {
		t.Fatal(err)
	}
	for want, args := range map[string][]string{
		"cscli bouncers add": {"--lapi-key-file", wrong},
		"--token-file":       {"--token-file", wrong},
		"connection refused": {"--lapi", "http://" + freeAddress(t)},
		"addresses for":      {"--address-zone", "1", "--user-zone", "2"},
		"nothing listens at": {"--url", "http://" + freeAddress(t)},
	} {
		if out := once(args...); !strings.Contains(out, want) {
			t.Errorf("%s: said\n%s\nwithout %q", args, out, want)
		}
	}
}
