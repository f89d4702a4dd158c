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
	"velocityd/tools/enginetest"
)

// lapiSettings are those of a CrowdSec that is its local API alone, in the folder FOLDER.
const lapiSettings = `common: {daemonize: false, log_media: stdout, log_level: info}
config_paths: {config_dir: FOLDER, data_dir: FOLDER, simulation_path: FOLDER/simulation.yaml, hub_dir: FOLDER, index_path: FOLDER/hub.json,
  notification_dir: FOLDER, plugin_dir: FOLDER}
db_config: {type: sqlite, db_path: FOLDER/crowdsec.db, use_wal: true}
api: {client: {credentials_path: FOLDER/machine.yaml}, server: {listen_uri: "LISTEN", profiles_path: FOLDER/profiles.yaml}}
prometheus: {enabled: false}
`

// crowdSec is a CrowdSec, and its custom bouncer with the program of the page.
type crowdSec struct {
	folder  string // config.yaml is CrowdSec's, bouncer.yaml the bouncer's
	bouncer *process
}

// newCrowdSec starts CrowdSec's local API and the bouncer.
func newCrowdSec(t *testing.T, w *world) *crowdSec {
	t.Helper()
	runsAsRoot(t, "crowdsec")
	folder, listen := t.TempDir(), freeAddress(t)
	c := &crowdSec{folder: folder}
	names := strings.NewReplacer(
		append(w.names(""), "FOLDER", folder, "LISTEN", listen, "http://localhost:8080/", "http://"+listen+"/",
			"exec velocityd ", "exec "+velocityd(t)+" ", "/etc/velocityd/", folder+"/", "log_mode: file", "log_mode: stdout",
			"enabled: true", "enabled: false",
			"update_frequency: 10s", "update_frequency: 1s", "cache_retention_duration: 10s", "cache_retention_duration: 1s",
			"${BINARY_PATH}", "/bin/true")...)
	write := func(name, content string) {
		if err := os.WriteFile(filepath.Join(folder, name), []byte(names.Replace(content)), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("config.yaml", lapiSettings)
	write("hub.json", "{}")
	write("machine.yaml", "")
	for _, name := range []string{"simulation.yaml", "profiles.yaml"} {
		write(name, text(t, filepath.Join(os.Getenv("VELOCITY_DOORS"), "../etc/crowdsec", name)))
	}
	write("crowdsec.token", w.run(t, "token", "create", "crowdsec", "--scope", "peek,overrides"))
	c.cli(t, "machines", "add", "test", "--password", "test", "-f", filepath.Join(folder, "machine.yaml"), "--force")
	key := strings.TrimSpace(c.cli(t, "bouncers", "add", "test", "-o", "raw"))
	start(t, nil, gateway(t, "crowdsec"), "-c", filepath.Join(folder, "config.yaml"), "-no-cs").await(t, listen)
	settings := text(
		t, filepath.Join(os.Getenv("VELOCITY_DOORS"), "../etc/crowdsec/bouncers/crowdsec-custom-bouncer.yaml"))
	write("bouncer.yaml", strings.Replace(settings, "${API_KEY}", key, 1))
	write("bouncer.yaml.local", text(t, "crowdsec/bouncer.yaml"))
	write("crowdsec-bouncer", text(t, "crowdsec/velocityd-bouncer"))
	if err := os.Chmod(filepath.Join(folder, "crowdsec-bouncer"), 0o700); err != nil {
		t.Fatal(err)
	}
	c.start(t)
	return c
}

// start starts the bouncer.
func (c *crowdSec) start(t *testing.T) {
	t.Helper()
	c.bouncer = start(t, nil, gateway(t, "crowdsec-custom-bouncer"), "-c", filepath.Join(c.folder, "bouncer.yaml"))
	c.bouncer.awaitLine(t, "Processing new and deleted decisions")
}

// cli runs cscli, and returns what it prints.
func (c *crowdSec) cli(t *testing.T, args ...string) string {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), gateway(t, "cscli"),
		append([]string{"-c", filepath.Join(c.folder, "config.yaml")}, args...)...).Output()
	if err != nil {
		t.Fatalf("cscli %s: %v\n%s", args, err, out)
	}
	return string(out)
}

func TestCrowdSecBansAreOverridesWhileActive(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "--require-auth")
	w.run(t, "override", "set", "2", "203.0.113.2", "--action", "allow", "--reason", "our office")
	c := newCrowdSec(t, w)
	host, err := os.Hostname()
	if err != nil {
		t.Fatal(err)
	}
	is := func(action service.OverrideAction, reason string) func(*service.Override) bool {
		return func(o *service.Override) bool { return o != nil && o.Action == action && o.Reason == reason }
	}
	isBan := func(of string) func(*service.Override) bool {
		return is(service.OverrideDeny, "crowdsec on "+host+": "+of)
	}
	ban := func(args ...string) {
		c.cli(t, append([]string{"decisions", "add", "--reason", "guessing"}, args...)...)
	}
	ban("--ip", "203.0.113.2")
	ban("--ip", "203.0.113.3", "--type", "captcha")
	ban("--scope", "username", "--value", "Bob")
	ban("--ip", "203.0.113.1")
	ban("--range", "198.51.100.0/24", "--duration", "48h")
	ban("--ip", "2001:db8::7")
	w.awaitOverride(t, "203.0.113.1", isBan("203.0.113.1"))
	w.awaitOverride(t, "198.51.100.0/24", isBan("198.51.100.0/24"))
	w.awaitOverride(t, "2001:db8::/64", isBan("2001:db8::7"))
	enginetest.Eventually(t, "bob is denied", func() bool {
		return strings.Contains(w.run(t, "override", "list", fmt.Sprint(userZone)), "crowdsec on "+host+": Bob")
	})
	w.awaitOverride(t, "203.0.113.3", isGone)

	ban("--ip", "2001:db8::8", "--duration", "20m")                // another address of the bucket
	for _, after := range []string{"203.0.113.6", "203.0.113.7"} { // the second one is in a later answer than 2001:db8::8
		ban("--ip", after)
		w.awaitOverride(t, after, isBan(after))
	}
	for _, ended := range []string{"2001:db8::8", "203.0.113.1", "203.0.113.2"} {
		c.cli(t, "decisions", "delete", "--ip", ended)
	}
	w.awaitOverride(t, "203.0.113.1", isGone)
	w.awaitOverride(t, "2001:db8::/64", isBan("2001:db8::7"))
	w.awaitOverride(t, "203.0.113.2", is(service.OverrideAllow, "our office"))
	ban("--ip", "203.0.113.4", "--duration", "5s")
	w.awaitOverride(t, "203.0.113.4", isBan("203.0.113.4"))
	w.awaitOverride(t, "203.0.113.4", isGone)
}
