package main

import (
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"velocityd/service"
	"velocityd/service/access"
	"velocityd/tools/enginetest"
)

// TestServeRefusesOtherAddressesWithoutCredentials runs the program as a process of its
// own.
func TestServeRefusesOtherAddressesWithoutCredentials(t *testing.T) {
	t.Parallel()
	d := enginetest.First(t).Database(t)
	for _, address := range []string{"0.0.0.0:0", ":0"} {
		var stderr strings.Builder
		cmd := exec.CommandContext(t.Context(), os.Args[0], "serve", "--listen", address)
		cmd.Env = append(os.Environ(), "VELOCITY_DSN="+d.DSN, asProgram+"=1")
		cmd.Stderr = &stderr
		err := cmd.Run()
		if cmd.ProcessState.ExitCode() != exitError ||
			!strings.Contains(stderr.String(), "velocityd token create NAME --scope check") ||
			!strings.Contains(stderr.String(), "--insecure-no-auth") || strings.Contains(stderr.String(), `"listening"`) {
			t.Errorf("%s: %v\n%s", address, err, &stderr)
		}
	}
	if r := command(environment{"VELOCITY_DSN": d.DSN}, nil, "serve", "--require-auth", "--listen",
		"127.0.0.1:0"); r.code != exitError ||
		!strings.Contains(r.stderr, "token create") {
		t.Errorf("--require-auth without a token: %+v", r)
	}
	env := environment{"VELOCITY_DSN": d.DSN}
	newToken(t, env, "shop", "--scope", "check")
	must(t, env, "token", "revoke", "--yes", "shop")
	if r := command(env, nil, "serve", "--listen", "0.0.0.0:0"); r.code != exitError {
		t.Errorf("with a revoked token: %+v", r)
	}
}

func TestOtherAddressesAnswerWhoProvesWhoHeIs(t *testing.T) {
	t.Parallel()
	d, env := databaseOf(t, service.Zone{ID: 1, Rate: 5, Window: time.Hour})
	token := newToken(t, env, "shop", "--scope", "check,zones")
	one := start(t, env, "serve", "--listen", "0.0.0.0:0")
	two := start(t, env, "serve", "--require-auth", "--trusted-proxies", "10.0.0.0/8, 127.0.0.1")
	for _, i := range []*instanceUnderTest{one, two} {
		mustAsk(t, i.url+"/livez", "", http.StatusOK)
		mustAsk(t, i.url+"/v1/check", alice, http.StatusUnauthorized)
		if r := send(t, "POST", i.url+"/v1/check", alice, "X-API-Key", token); r.status != http.StatusOK {
			t.Errorf("a check with a token: %d %s", r.status, r.body)
		}
	}
	enginetest.Eventually(t, "the use is recorded", func() bool {
		return d.Count(t, "SELECT COUNT(*) FROM access_token WHERE last_used_at IS NOT NULL") == 1
	})
	for i, want := range map[*instanceUnderTest]string{one: "shop", two: "root via shop"} {
		const zone = `{"rate":5,"window":60}`
		if r := send(t, "PUT", i.url+"/v1/zones/2", zone, "X-API-Key", token, "X-Forwarded-User", "root"); r.status >= 300 {
			t.Fatalf("%d %s", r.status, r.body)
		}
		if n := d.Count(t, "SELECT COUNT(*) FROM zone_audit WHERE principal = ?", want); n != 1 {
			t.Errorf("%d changes are recorded under %q, want 1", n, want)
		}
	}
	must(t, env, "token", "revoke", "--yes", "shop")
	for _, i := range []*instanceUnderTest{one, two} {
		enginetest.Eventually(t, "the revocation is seen", func() bool {
			return send(t, "POST", i.url+"/v1/check", alice, "X-API-Key", token).status == http.StatusUnauthorized
		})
		if log := i.stderr.String(); strings.Contains(log, token[8:]) || !strings.Contains(log, `"require_auth"`) {
			t.Error("the log holds the token, or does not tell the settings")
		}
	}
}

func TestInsecureServesWhoeverComesAndSaysSo(t *testing.T) {
	t.Parallel()
	d := enginetest.First(t).Database(t, service.Zone{ID: 1, Rate: 5, Window: time.Hour})
	i := start(t, environment{"VELOCITY_DSN": d.DSN}, "serve", "--insecure-no-auth", "--listen", "0.0.0.0:0",
		"--admin-listen", "0.0.0.0:0")
	mustAsk(t, i.url+"/v1/check", alice, http.StatusOK)
	if strings.Count(i.stderr.String(), "answered without credentials") != 2 {
		t.Error("the log does not say of each address that every caller is answered")
	}
}

// TestServeThatCannotKnowAsksForCredentials starts it while its database is away.
func TestServeThatCannotKnowAsksForCredentials(t *testing.T) {
	t.Parallel()
	i := launch(t, environment{"VELOCITY_DSN": "velocity:secret@tcp(127.0.0.1:1)/velocityd"}, "serve", "--listen",
		"0.0.0.0:0")
	i.awaitAddress(t)
	mustAsk(t, i.url+"/v1/zones", "", http.StatusUnauthorized)
	if r := send(t, "GET", i.url+"/v1/zones", "", "X-API-Key",
		access.NewToken().Reveal()); r.status != http.StatusServiceUnavailable {
		t.Errorf("a token that cannot be looked up: %d %s", r.status, r.body)
	}
}

// TestDevRequiringTokensLetsOneBeMade is the only way to a token of dev's database.
func TestDevRequiringTokensLetsOneBeMade(t *testing.T) {
	t.Parallel()
	env := environment{"VELOCITY_DATA": enginetest.First(t).Folder(t), "VELOCITY_ENGINE": enginetest.First(t).Name}
	i := start(t, env, "dev", "--require-auth")
	mustAsk(t, i.url+"/v1/check", alice, http.StatusUnauthorized)
	token := newToken(t, env, "me", "--scope", "admin")
	enginetest.Eventually(t, "the token is known", func() bool {
		return send(t, "POST", i.url+"/v1/check", alice, "X-API-Key", token).status == http.StatusOK
	})
	if !strings.Contains(i.stdout.String(), "Callers need a token.") {
		t.Errorf("dev does not say that callers need a token:\n%s", i.stdout)
	}
}

func TestNetworksAreReadFromTheCommandLine(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"10.0.0.0/8": "10.0.0.0/8", "10.1.2.3/8": "10.0.0.0/8", "192.0.2.7": "192.0.2.7/32", "::1": "::1/128",
		"::ffff:192.0.2.7": "192.0.2.7/32", "2001:db8::/32": "2001:db8::/32", "0.0.0.0/0": "", "::/0": "",
		"": "", "proxy": "", "10.0.0.0/33": "", "fe80::1%eth0": "", "::ffff:10.0.0.0/104": "", " 10.0.0.0/8 ": "10.0.0.0/8",
	} {
		var f networkFlag
		err := f.UnmarshalText([]byte(text))
		if got := fmt.Sprint(netip.Prefix(f)); (err != nil) != (want == "") || err == nil && got != want {
			t.Errorf("%q: %s, %v, want %q", text, got, err, want)
		}
	}
}

func TestDevSaysWhoIsAnswered(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		address string
		flags   authFlags
		want    string
	}{
		{
			"127.0.0.1:8080",
			authFlags{},
			"every program on this machine may ask, change zones and release keys, without credentials",
		},
		{"127.0.0.1:8080", authFlags{RequireAuth: true}, "velocityd token create me --scope admin --data '/data of mine'"},
		{"0.0.0.0:8080", authFlags{}, "velocityd token create me --scope admin --data '/data of mine'"},
		{"0.0.0.0:8080", authFlags{InsecureNoAuth: true}, "every program that reaches 0.0.0.0:8080 may ask"},
	} {
		dev := devCmd{serviceFlags: serviceFlags{authFlags: c.flags}}
		if got := dev.accessNote(net.TCPAddrFromAddrPort(netip.MustParseAddrPort(c.address)),
			"/data of mine"); !strings.Contains(got, c.want) {
			t.Errorf("%s, %+v: %s", c.address, c.flags, got)
		}
	}
}
