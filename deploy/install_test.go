//go:build packages

package deploy_test

import (
	"encoding/json"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"velocityd/tools/handlerstest"
)

// onePage returns the blocks of "On one machine" in docs/install.md: its shell, and the answer that it prints last.
func onePage(t *testing.T) (blocks []string, answer string) {
	t.Helper()
	_, section, found := strings.Cut(read(t, "../docs/install.md"), "\n## On one machine\n")
	section, _, _ = strings.Cut(section, "\n## ")
	for _, block := range regexp.MustCompile("(?s)```(sh|json)\n(.*?)```").FindAllStringSubmatch(section, -1) {
		switch {
		case block[1] == "json":
			answer = block[2]
		case strings.HasPrefix(block[2], "# as root\n"):
			blocks = append(blocks, block[2])
		default:
			t.Errorf("a block does not begin with '# as root':\n%s", block[2])
		}
	}
	if !found || len(blocks) < 3 || answer == "" {
		t.Fatalf("docs/install.md has no section 'On one machine' with shell and an answer")
	}
	return blocks, answer
}

// newcomer follows the page on an empty machine, and holds the last answer against the one that the page prints.
func newcomer(t *testing.T, f files) {
	t.Helper()
	m := newMachine(t)
	m.putFile(f.deb(t))
	begun := time.Now()
	printed := m.follow(t)
	t.Logf("from the first command to the first answer: %s", time.Since(begun).Round(time.Second))
	_, answer := onePage(t)
	var want, got map[string]any
	if err := json.Unmarshal([]byte(answer), &want); err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal([]byte(printed), &got); err != nil {
		t.Fatalf("the last block printed %q: %v", printed, err)
	}
	for name := range want {
		if _, ok := got[name]; !ok || got["blocked"] != false {
			t.Errorf("the answer has no %s: %s", name, printed)
		}
	}
	if uid := strings.Fields(m.run(`grep Uid: /proc/$(systemctl show -P MainPID velocityd)/status`))[1]; uid == "0" {
		t.Error("the service runs as root")
	}
	m.run("velocityd doctor --dsn-file /etc/velocityd/dsn")
	for range 4 {
		m.run("velocityd check 1 alice --url http://127.0.0.1:8080")
	}
	if code := m.code("velocityd check 1 alice --url http://127.0.0.1:8080"); code != 3 {
		t.Errorf("the sixth attempt: exit code %d, want 3, blocked", code)
	}
	if got := m.run("velocityd version"); got != "velocityd "+released+"\n" {
		t.Errorf("version: %q", got)
	}
	m.run(`complete -p velocityd 2>/dev/null || . /usr/share/bash-completion/completions/velocityd; complete -p velocityd`)
}

// follow runs the blocks of the page in order, and returns the output of the last one.
func (m *machine) follow(t *testing.T) (printed string) {
	t.Helper()
	blocks, _ := onePage(t)
	for _, block := range blocks {
		printed = m.run(block)
	}
	return printed
}

// isServing says in shell that the service is ready at a port.
func isServing(port string) string {
	return "systemctl is-active --quiet velocityd && curl -sf http://127.0.0.1:" + port + "/readyz"
}

func lifeOfTheDeb(t *testing.T, f files) {
	t.Helper()
	m := newMachine(t)
	before := m.traces()
	m.run("dpkg -i " + m.putFile(f.deb(t)))
	if code := m.code("systemctl is-active --quiet velocityd"); code == 0 {
		t.Error("the service runs without a DSN")
	}
	if got := m.run("systemctl is-enabled velocityd"); got != "enabled\n" {
		t.Errorf("the service is %q, want enabled", got)
	}
	if code := m.code("systemctl is-failed --quiet velocityd"); code == 0 {
		t.Error("a service without a DSN has failed; it must only not have been started")
	}
	m.follow(t)
	m.run(isServing("8080"))
	m.run("sed -i 's/^listen: .*/listen: 127.0.0.1:9090   # mine/' /etc/velocityd/velocityd.yaml")
	first := m.run("systemctl show -P MainPID velocityd")
	upgrade := files{folder: f.upgrade}
	m.run("dpkg -i " + m.putFile(upgrade.deb(t)))
	m.eventually("the service answers after the upgrade, as the changed file says", isServing("9090"))
	if second := m.run("systemctl show -P MainPID velocityd"); second == first {
		t.Error("the service was not started anew after the upgrade")
	}
	if got := m.run("dpkg-query -W -f '${Version}' velocityd"); got != upgraded {
		t.Errorf("the version is %q", got)
	}
	m.run("grep -q 'listen: 127.0.0.1:9090   # mine' /etc/velocityd/velocityd.yaml")
	m.run("reboot=$(systemctl list-dependencies --plain multi-user.target); grep -q velocityd.service <<<\"$reboot\"")

	m.run("dpkg --remove velocityd")
	if code := m.code("systemctl is-active --quiet velocityd"); code == 0 {
		t.Error("the service runs after the removal")
	}
	m.run("test -s /etc/velocityd/velocityd.yaml -a -s /etc/velocityd/dsn -a ! -e /usr/bin/velocityd")
	m.run(`cd /etc/velocityd && touch tls.crt tls.key pam.token pseudonyms.key
install -D -m 0644 /dev/null /etc/systemd/system/velocityd.service.d/tls.conf`)
	m.run("dpkg --purge velocityd")
	left := slices.DeleteFunc(m.traces(), func(path string) bool { return slices.Contains(before, path) })
	if want := []string{"/etc/velocityd", "/etc/velocityd/pseudonyms.key"}; !slices.Equal(left, want) {
		t.Errorf("the purge has left %q, want %q", left, want)
	}
}

// traces returns the paths that have the name of the package in it, but for those of the database, of root, and of
// systemd's and dpkg's logs.
func (m *machine) traces() []string {
	m.t.Helper()
	return m.lines(`find / -xdev \( -path /proc -o -path /sys -o -path /var/lib/mysql -o -path /root -o -path /var/log \) -prune \
  -o -path '*velocityd*' -print | sort`)
}

func lifeOfTheRPM(t *testing.T, f files) {
	t.Helper()
	m := newMachine(t)
	// This distribution has no packages of rpm that could satisfy the recommendations of an rpm, and needs none.
	m.run("rpm -i " + m.putFile(f.rpm(t)))
	blocks, _ := onePage(t)
	for _, block := range blocks[1:] {
		m.run(block)
	}
	m.run(isServing("8080"))
	m.run("echo '# mine' >>/etc/velocityd/velocityd.yaml")
	first := m.run("systemctl show -P MainPID velocityd")
	upgrade := files{folder: f.upgrade}
	m.run("rpm -U " + m.putFile(upgrade.rpm(t)))
	m.eventually("the service answers after the upgrade", isServing("8080"))
	if second := m.run("systemctl show -P MainPID velocityd"); second == first {
		t.Error("the service was not started anew after the upgrade")
	}
	m.run("grep -q '^# mine' /etc/velocityd/velocityd.yaml")
	m.run("rpm -e velocityd")
	if code := m.code("systemctl is-active --quiet velocityd"); code == 0 {
		t.Error("the service runs after the removal")
	}
	m.run("test -s /etc/velocityd/velocityd.yaml.rpmsave -a -s /etc/velocityd/dsn -a ! -e /usr/bin/velocityd")
}

// confinement asks systemd how far the unit is confined, holds it against mistakes, and adds TLS by the drop-in.
func confinement(t *testing.T, f files) {
	t.Helper()
	m := newMachine(t)
	m.putFile(f.deb(t))
	m.follow(t)
	if said := m.run("systemd-analyze verify /usr/lib/systemd/system/velocityd.service 2>&1"); strings.Contains(
		said, "velocityd") {
		t.Errorf("systemd-analyze verify: %s", said)
	}
	for _, mode := range []string{"--offline=true /usr/lib/systemd/system/velocityd.service", "velocityd.service"} {
		said := m.run("systemd-analyze security --no-pager --threshold=20 " + mode)
		score := strings.TrimSpace(said)
		t.Logf("%s: %s", mode, score[strings.LastIndex(score, "\n")+1:])
	}
	limit := m.run(`awk '/Max open files/ { print $4 }' /proc/$(systemctl show -P MainPID velocityd)/limits`)
	if n, err := strconv.Atoi(strings.TrimSpace(limit)); err != nil || n < 10_000 {
		t.Errorf("the service may open %q files, too few for its connections", limit)
	}
	m.run("systemctl restart velocityd && " + isServing("8080")) // Type=notify: it listens when systemctl returns

	authority := handlerstest.NewAuthority(t)
	served := authority.Issue(t, "localhost")
	m.put("/etc/velocityd/tls.crt", "0644", served.Cert)
	m.put("/etc/velocityd/tls.key", "0600", served.Key)
	m.put("/root/ca.pem", "0644", authority.PEM)
	m.run(`install -D -m 0644 /usr/share/velocityd/systemd/tls.conf /etc/systemd/system/velocityd.service.d/tls.conf
systemctl daemon-reload && systemctl restart velocityd
curl -sSf --cacert /root/ca.pem https://localhost:8080/readyz`)

	for _, file := range []string{"dsn", "tls.key"} {
		m.run("chmod 0644 /etc/velocityd/" + file)
		if code := m.code("systemctl restart velocityd"); code == 0 {
			t.Errorf("the service started with a %s that all users can read", file)
		}
		m.run("journalctl --no-pager --unit velocityd | grep -F 'run chmod 600 /etc/velocityd/" + file + "'")
		m.run("chmod 0600 /etc/velocityd/" + file + " && systemctl reset-failed velocityd && systemctl restart velocityd")
	}

	m.run("systemctl reset-failed velocityd; echo 'lisen: x' >>/etc/velocityd/velocityd.yaml") // of the limit of starts
	if code := m.code("systemctl restart velocityd"); code == 0 {
		t.Error("the service started with a wrong file of settings")
	}
	m.run(`test "$(systemctl show -P ExecMainStatus velocityd)" = 2 -a "$(systemctl show -P SubState velocityd)" = failed`)
	m.run("journalctl --no-pager --unit velocityd | grep -F 'velocityd.yaml line ' | grep -F 'did you mean listen?'")
}
