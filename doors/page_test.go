//go:build doors

package doors_test

import (
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"
)

// prologue is one line of shell before each block. It holds make against the Makefile in place of running it, and lets
// radclient find its dictionaries.
const prologue = `set -eu; cd "$PROJECT"; velocityd() { bin/velocityd-doors "$@"; }; make() { command make --dry-run --directory="$PROJECT" "$@" >/dev/null; }; ` +
	`radclient() { "$DOORS/radclient" -D "$DOORS/../usr/share/freeradius" "$@"; }; doveadm() { "$DOORS/doveadm" "$@"; }; `

// TestTheBlocksOfEachPageRun runs the shell of a page against the gateway that the page configures, and holds what it
// prints against the block of text behind it, or the comment at its end. That the page shows the files of this folder,
// a test of docs holds.
func TestTheBlocksOfEachPageRun(t *testing.T) {
	t.Parallel()
	radius := func(t *testing.T, w *world, _ ...string) string {
		t.Helper()
		return "http://" + startFreeRADIUS(t, w).address
	}
	mail := func(t *testing.T, w *world, _ ...string) string {
		t.Helper()
		return startDovecot(t, w).configuration
	}
	login := func(t *testing.T, w *world, _ ...string) string {
		t.Helper()
		return newHost(t, w).enter
	}
	bans := func(t *testing.T, w *world, _ ...string) string {
		t.Helper()
		return strings.Join(newJail(t, w).files(), " ")
	}
	decisions := func(t *testing.T, w *world, _ ...string) string {
		t.Helper()
		return newCrowdSec(t, w).folder
	}
	nothing := func(*testing.T, *world, ...string) string { return "" }
	for page, start := range map[string]func(*testing.T, *world, ...string) string{
		"README.md": nothing, "nginx.md": startNginx, "caddy.md": startCaddy("caddy-module"), "haproxy.md": startHAProxy,
		"traefik.md": startTraefik, "envoy.md": startEnvoy, "freeradius.md": radius, "dovecot.md": mail, "pam.md": login,
		"proxy.md": startProxy, "fail2ban.md": bans, "crowdsec.md": decisions,
	} {
		t.Run(page, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.app.report = nil
			listen := strings.TrimPrefix(start(t, w), "http://")
			w.runPage(t, page,
				strings.NewReplacer(append(w.names(listen), "127.0.0.1:1812", listen, "doveadm auth", "doveadm -c "+listen+" auth",
					"fail2ban-client ", "\"$DOORS/fail2ban-client\" "+listen+" ", "pamtester -I", listen+" \"$DOORS/pamtester\" -I",
					"cscli ", "\"$DOORS/cscli\" -c "+listen+"/config.yaml ")...))
		})
	}
}

// runPage runs a page's blocks in their order.
func (w *world) runPage(t *testing.T, page string, names *strings.Replacer) {
	t.Helper()
	printed, ran := "", 0
	for _, block := range regexp.MustCompile("(?ms)^```(sh|text)\n(.*?)^```$").FindAllStringSubmatch(
		text(t, "../docs/doors/"+page), -1) {
		if block[1] == "text" {
			if strings.TrimSpace(printed) != strings.TrimSpace(block[2]) {
				t.Errorf("%s: the block printed %q, and the page says %q", page, printed, block[2])
			}
			continue
		}
		command := exec.CommandContext(t.Context(), "bash", "-c", prologue+names.Replace(block[2]))
		command.Env = append(os.Environ(), "token="+w.token, "PROJECT="+file(t, ".."), "DOORS="+os.Getenv("VELOCITY_DOORS"))
		out, err := command.CombinedOutput()
		if err != nil {
			t.Fatalf("%s: %v\n%s\n%s", page, err, block[2], out)
		}
		printed, ran = string(out), ran+1
		if want := regexp.MustCompile(`(?m)^# (.*)\n\z`).FindStringSubmatch(block[2]); want != nil &&
			strings.TrimSpace(printed) != want[1] {
			t.Errorf("%s: the block printed %q, and the page says %q", page, printed, want[1])
		}
	}
	if ran == 0 {
		t.Errorf("%s has no block of shell", page)
	}
}
