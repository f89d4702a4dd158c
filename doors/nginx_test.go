//go:build doors

package doors_test

import (
	"html"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// nginxMain is what stands in /etc/nginx/nginx.conf, in a folder of the test.
const nginxMain = `daemon off;
master_process off;
pid nginx.pid;
error_log stderr info;
events {}
http {
    access_log off;
    client_body_temp_path body;
    proxy_temp_path proxy;
    fastcgi_temp_path fastcgi;
    uwsgi_temp_path uwsgi;
    scgi_temp_path scgi;
    include SITE;
}
`

func startNginx(t *testing.T, w *world, replace ...string) string {
	t.Helper()
	listen := freeAddress(t)
	common := w.configure(t, "nginx/velocityd.inc", listen, replace...)
	site := w.configure(t, "nginx/velocityd.conf", listen,
		append(replace, "listen 8000", "listen "+listen, "/etc/nginx/velocityd.inc", common)...)
	runNginx(t, site, listen)
	return "http://" + listen
}

// runNginx runs nginx with the configuration of a site.
func runNginx(t *testing.T, site, listen string) {
	t.Helper()
	folder := t.TempDir()
	path := filepath.Join(folder, "nginx.conf")
	if err := os.WriteFile(path, []byte(strings.Replace(nginxMain, "SITE", site, 1)), 0o600); err != nil {
		t.Fatal(err)
	}
	start(t, nil, gateway(t, "nginx"), "-p", folder, "-c", path, "-e", "stderr").await(t, listen)
}

func TestNginxGuardsUsersOfAuthorizationBasic(t *testing.T) {
	t.Parallel()
	// 500 is nginx's word for every status of a gate but 2xx, 401 and 403, and for no answer.
	door{start: startNginx, login: basic, away: 500, slow: 500, busy: 500, noToken: 500, opens: true}.prove(t)
}

// TestGatewayWithoutBodiesCountsLoginFormAddresses is as much as nginx and Caddy can do for a form: whichever name is
// in it, the address counts.
func TestGatewayWithoutBodiesCountsLoginFormAddresses(t *testing.T) {
	t.Parallel()
	for name, start := range map[string]func(*testing.T, *world, ...string) string{
		"nginx": startNginx, "caddy": startCaddy("caddy"), "caddy-module": startCaddy("caddy-module"),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, "--require-auth")
			at, door := start(t, w), door{login: form}
			for _, user := range strings.Fields("a b c d") {
				door.guess(t, at, "127.0.1.1", user, userRate)
			}
			if r := door.try(t, at, "127.0.1.1", "e", right); r.status != http.StatusTooManyRequests ||
				r.header.Get("Retry-After") == "" {
				t.Errorf("beyond the address's rate: status %d, Retry-After %q; want 429", r.status, r.header.Get("Retry-After"))
			}
			for _, path := range spellings() {
				r := request(t, http.MethodPost, at+path, "username=e&password=right")
				if answer, err := send(t, r, "127.0.1.1"); err != nil || answer.status != http.StatusTooManyRequests {
					t.Errorf("%s: status %d %s (%v), want 429", path, answer.status, answer.body, err)
				}
			}
			if r := door.try(t, at, "127.0.1.2", "e", right); r.status != http.StatusOK {
				t.Errorf("another address: status %d, want 200", r.status)
			}
		})
	}
}

// TestConsoleNeedsANameOfItsOwn runs the block of the console's page, which the console itself shows below a path of
// another site.
func TestConsoleNeedsANameOfItsOwn(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "--require-auth")
	block := regexp.MustCompile("(?s)```nginx\n(.*?)```").FindStringSubmatch(text(t, "../docs/console.md"))[1]
	listen, prefixed := freeAddress(t), freeAddress(t)
	for address, site := range map[string]string{
		listen:   strings.NewReplacer("443 ssl", listen, "127.0.0.1:8080", w.address).Replace(block),
		prefixed: "server { listen " + prefixed + "; location /velocity/ { proxy_pass http://" + w.address + "/; } }",
	} {
		path := filepath.Join(t.TempDir(), "console.conf")
		if err := os.WriteFile(path, []byte(site), 0o600); err != nil {
			t.Fatal(err)
		}
		runNginx(t, path, address)
	}
	r := request(t, http.MethodPost, "http://"+listen+"/console/login", url.Values{"token": {w.token}}.Encode())
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	answer, err := http.DefaultTransport.RoundTrip(r)
	if err != nil {
		t.Fatal(err)
	}
	answer.Body.Close()
	_, port, _ := strings.Cut(listen, ":")
	cookies := answer.Cookies()
	if len(cookies) != 1 || cookies[0].Name != "__Host-velocityd-"+port {
		t.Fatalf("the log-in is answered with %d, %v", answer.StatusCode, cookies)
	}
	r = request(t, http.MethodGet, "http://"+listen+"/console/search", "")
	r.AddCookie(cookies[0])
	if page, err := send(t, r, "127.0.0.1"); err != nil || !strings.Contains(page.body, "Log out") {
		t.Errorf("the page with the cookie is %v, %v", page, err)
	}
	moved, err := http.Get("http://" + prefixed + "/velocity/console/zones/1")
	if err != nil {
		t.Fatal(err)
	}
	defer moved.Body.Close()
	page, err := io.ReadAll(moved.Body)
	if err != nil || !strings.Contains(html.UnescapeString(string(page)), "<pre>"+strings.TrimSpace(block)+"</pre>") {
		t.Errorf("below a path %s shows %s, %v", moved.Request.URL, page, err)
	}
}
