package main

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"velocityd/service"
	"velocityd/tools/enginetest"
	"velocityd/tools/handlerstest"
)

// startProxy starts 'velocityd proxy' as a process in front of an application, with most settings in a file, and waits
// until it is ready.
func startProxy(t *testing.T, app, of string, args ...string) *instanceUnderTest {
	t.Helper()
	settings := fileOf(t, "proxy.yaml", "upstream: "+app+"\nurl: "+of+`
login: [POST /login, POST /api/login]
user: [form:username, json:/username]
user-zone: 1
address-zone: 2
success: ["status:200"]
failure: ["status:401"]
access-log: true
`)
	args = append([]string{"proxy", "--config", settings, "--listen", "127.0.0.1:0", "--log-format", "json"}, args...)
	i := spawn(t, exec.CommandContext(context.Background(), os.Args[0], args...), nil)
	if !slices.Contains(args, "--tls-cert") {
		eventuallyStatus(t, i.url+"/velocityd/readyz", http.StatusOK)
	}
	return i
}

// loginApp answers 200 to the right password and 401 to others.
func loginApp(t *testing.T) string {
	t.Helper()
	app := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		if !strings.Contains(string(body), "right") {
			w.WriteHeader(http.StatusUnauthorized)
		}
	}))
	t.Cleanup(app.Close)
	return app.URL
}

// logIn sends a login by a form and returns the status.
func logIn(t *testing.T, to, user, password string) int {
	t.Helper()
	response, err := http.PostForm(to+"/login", url.Values{"username": {user}, "password": {password}})
	if err != nil {
		t.Fatal(err)
	}
	_ = response.Body.Close()
	return response.StatusCode
}

func proxyZones() []service.Zone {
	return []service.Zone{
		{ID: 1, Rate: 5, Window: time.Hour, Counts: service.CountsFailures, Keys: service.KeyRule{Kind: service.KeyUsername}},
		{ID: 2, Rate: 100, Window: time.Hour, Counts: service.CountsFailures, Keys: service.KeyRule{Kind: service.KeyIP}},
	}
}

func TestProxyLimitsLoginsAndHistoryHasTheirOutcomes(t *testing.T) {
	t.Parallel()
	d := enginetest.First(t).Database(t, proxyZones()...)
	token := must(t, environment{"VELOCITY_DSN": d.DSN}, "token", "create", "proxy", "--scope", "check,report")
	i := start(t, environment{"VELOCITY_DSN": d.DSN}, "serve", "--require-auth")
	p := startProxy(t, loginApp(t), i.url, "--token-file", fileOf(t, "token", token))
	for range 4 {
		if got := logIn(t, p.url, "Mallory", "guess"); got != http.StatusUnauthorized {
			t.Fatalf("a guess: %d", got)
		}
	}
	if got := logIn(t, p.url, "mallory", "right"); got != http.StatusOK {
		t.Errorf("the right password: %d", got)
	}
	enginetest.Eventually(t, "all outcomes are recorded", func() bool {
		return d.Count(
			t, "SELECT COUNT(*) FROM zone_txn WHERE zone_id = 1 AND bucket_key = 'mallory' AND outcome = 'failure'") == 4 &&
			d.Count(t, "SELECT COUNT(*) FROM zone_txn WHERE outcome = 'success' AND bucket_key IN ('mallory', '127.0.0.1')") == 2
	})
	for _, want := range []int{http.StatusUnauthorized, http.StatusTooManyRequests} {
		if got := logIn(t, p.url, "mallory", "guess"); got != want {
			t.Errorf("a guess after that: %d, want %d", got, want)
		}
	}
	if log := p.stderr.String(); strings.Contains(log, "mallory") || strings.Contains(log, `"error"`) {
		t.Errorf("the log of the proxy:\n%s", log)
	}
}

func TestProxyFollowsPolicyWhileServiceIsAway(t *testing.T) {
	t.Parallel()
	away := fmt.Sprintf("http://127.0.0.1:%d", enginetest.FreePort(t))
	for policy, want := range map[string]int{"allow": http.StatusOK, "deny": http.StatusServiceUnavailable} {
		p := startProxy(t, loginApp(t), away, "--on-error", policy)
		if got := logIn(t, p.url, "alice", "right"); got != want {
			t.Errorf("--on-error %s: %d, want %d", policy, got, want)
		}
		enginetest.Eventually(t, "the log says why", func() bool {
			return strings.Contains(p.stderr.String(), "nothing listens at") &&
				strings.Contains(p.stderr.String(), `"verdict":"degraded"`) == (policy == "allow")
		})
	}
}

func TestAStoppedProxyAnswersWhatIsUnderWay(t *testing.T) {
	t.Parallel()
	begun, answer := make(chan struct{}), make(chan struct{})
	app := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		close(begun)
		<-answer
		_, _ = io.WriteString(w, "done")
	}))
	t.Cleanup(app.Close)
	p := startProxy(t, app.URL, "http://127.0.0.1:1")
	answered := make(chan reply)
	go func() {
		r, err := request(p.url+"/slow", "")
		if err != nil {
			t.Error(err)
		}
		answered <- r
	}()
	<-begun
	p.cancel()
	awaitNoNewConnections(t, p)
	close(answer)
	if r := <-answered; r.body != "done" {
		t.Errorf("got %d %q", r.status, r.body)
	}
	if code := p.await(t); code != exitSuccess {
		t.Errorf("exit code %d\n%s", code, p.stderr)
	}
}

func TestDrainingProxyIsNotReadyButAnswers(t *testing.T) {
	t.Parallel()
	// The second signal, at the end, does not wait.
	p := startProxy(t, loginApp(t), "http://127.0.0.1:1", "--drain-delay", "1h")
	p.cancel()
	eventuallyStatus(t, p.url+"/velocityd/readyz", http.StatusServiceUnavailable)
	if r, err := request(p.url+"/velocityd/livez", ""); err != nil || r.status != http.StatusOK {
		t.Errorf("livez: %d (%v)", r.status, err)
	}
	if r, err := request(p.url+"/", ""); err != nil || r.status != http.StatusUnauthorized {
		t.Errorf("a page: %d (%v), want the application's 401", r.status, err)
	}
}

func TestTheProxySpeaksHTTP2WithTLS(t *testing.T) {
	t.Parallel()
	authority := handlerstest.NewAuthority(t)
	files := handlerstest.NewMount(t, authority.Issue(t, "proxy"))
	p := startProxy(t, loginApp(t), "http://127.0.0.1:1", "--on-error", "allow", "--tls-cert", files.Cert(), "--tls-key",
		files.Key())
	transport := &http.Transport{
		TLSClientConfig:   &tls.Config{RootCAs: authority.Pool, MinVersion: tls.VersionTLS12},
		ForceAttemptHTTP2: true,
	}
	defer transport.CloseIdleConnections()
	to := strings.Replace(p.url, "http:", "https:", 1) + "/login"
	response, err := (&http.Client{Transport: transport}).PostForm(
		to, url.Values{"username": {"a"}, "password": {"right"}})
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	if response.ProtoMajor != 2 || response.StatusCode != http.StatusOK {
		t.Errorf("%s %d", response.Proto, response.StatusCode)
	}
}

func TestUnworkableProxySettingsAreRefused(t *testing.T) {
	t.Parallel()
	base := []string{
		"--url", "http://127.0.0.1:1", "--upstream", "http://127.0.0.1:1", "--login", "POST /login", "--user",
		"form:u", "--user-zone", "1",
	}
	for _, c := range []struct {
		args []string
		want string
	}{
		{nil, "--url"},
		{[]string{"--url", "http://127.0.0.1:1"}, "--login must say"},
		{append(base, "--login", "login"), "a login is a method and a path"},
		{append(base, "--user", "query:user"), "a place is form:FIELD"},
		{append(base, "--user", "json:user"), "JSON pointer"},
		{append(base, "--upstream", "http://127.0.0.1:1/app"), "--upstream must be scheme and host"},
		{append(base, "--upstream", "127.0.0.1:1"), "--upstream must be scheme and host"},
		{append(base, "--address-zone", "1"), "must be two zones"},
		{append(base, "--user-optional"), "needs --address-zone"},
		{append(base, "--success", "status:x"), "a status is a number"},
		{append(base, "--failure", "code:1"), "the kinds of conditions"},
		{append(base, "--blocked-html", "/nothing"), "no such file"},
		{append(base, "--tls-cert", "a"), "belong together"},
		{append(base, "--max-login-bytes", "0"), "--max-login-bytes"},
		{append(base, "--ask-timeout", "0s"), "must be above 0"},
		{append(base, "--listen", "x"), "a host and a port"},
		{base[:8], "--user-zone, --address-zone or both"},
	} {
		r := command(nil, nil, append([]string{"proxy"}, c.args...)...)
		if r.code != exitUsage || !strings.Contains(r.stderr, c.want) {
			t.Errorf("%q: exit code %d, %s", c.args, r.code, r.stderr)
		}
	}
}

// TestProxyTakesSettingsOfItsRecipes reads the files that docs/doors/proxy.md shows.
func TestProxyTakesSettingsOfItsRecipes(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("../../doors/proxy/*.yaml")
	if err != nil || len(files) < 5 {
		t.Fatalf("there are %d files (%v)", len(files), err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		settings := filepath.Join(t.TempDir(), "proxy.yaml")
		writeFile(t, settings, strings.Replace(string(text), "/etc/velocityd/authelia.json",
			filepath.Join(filepath.Dir(settings), "page.json"), 1))
		writeFile(t, filepath.Join(filepath.Dir(settings), "page.json"),
			`{"status":"KO","message":"Too many attempts, wait {{.RetryAfter}} s."}`)
		grammar := &cli{}
		parser := parserOf(t, grammar, environment{})
		if _, err := parser.Parse([]string{"proxy", "--config", settings}); err != nil {
			t.Errorf("%s: %v", file, err)
			continue
		}
		if o, err := grammar.Proxy.options(); err != nil || len(o.Rules.Success) == 0 || len(o.Users) == 0 {
			t.Errorf("%s: %+v (%v)", file, o, err)
		}
	}
}
