//go:build doors

package doors_test

import (
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
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

// TestPagesThatAreNoLoginReachTheApplication holds that a gateway hands everything else on, without an id that a client made up.
func TestPagesThatAreNoLoginReachTheApplication(t *testing.T) {
	t.Parallel()
	for name, start := range map[string]func(*testing.T, *world, ...string) string{
		"nginx": startNginx, "caddy": startCaddy("caddy"), "haproxy": startHAProxy, "traefik": startTraefik,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.app.report = nil
			at := start(t, w)
			for i := range 2 * userRate {
				r := request(t, http.MethodGet, at+"/welcome", "")
				r.SetBasicAuth("walter", right)
				r.Header.Set("X-Velocity-Txn-Id", "999999")
				if answer, err := send(t, r, "127.0.1.1"); err != nil || answer.status != http.StatusOK {
					t.Fatalf("page %d: status %d %s (%v), want the application's 200", i+1, answer.status, answer.body, err)
				}
			}
			for _, seen := range w.app.of("walter") {
				if id := seen.header.Get("X-Velocity-Txn-Id"); id != "" && name == "nginx" {
					t.Errorf("the application saw the client's id %s", id)
				}
			}
		})
	}
}

// TestAGatewayWithoutBodiesCountsAddressesOfALoginForm is as much as nginx and Caddy can do for a form: whatever name is in it,
// the address counts.
func TestAGatewayWithoutBodiesCountsAddressesOfALoginForm(t *testing.T) {
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
			if r := door.try(t, at, "127.0.1.1", "e", right); r.status != http.StatusTooManyRequests || r.header.Get("Retry-After") == "" {
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

// userInHeader is what the page warns of.
const userInHeader = `server {
    listen 127.0.0.1:8000;
    location / {
        proxy_set_header X-Velocity-Key $remote_user;
        proxy_pass http://127.0.0.1:3000;
    }
}
`

// TestNginxWritesTheLineBreaksOfRemoteUserIntoARequest is why the gate reads Authorization itself: by its user a client ends the
// request where he likes, and begins another one.
func TestNginxWritesTheLineBreaksOfRemoteUserIntoARequest(t *testing.T) {
	t.Parallel()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = listener.Close() }()
	w := &world{app: &application{address: listener.Addr().String()}}
	listen := freeAddress(t)
	runNginx(t, w.write(t, "user.conf", userInHeader, listen), listen)
	got := make(chan string, 1)
	go func() {
		conn, err := listener.Accept()
		if err != nil {
			got <- err.Error()
			return
		}
		defer func() { _ = conn.Close() }()
		head, _ := io.ReadAll(io.LimitReader(conn, int64(len("GET / HTTP/1.0\r\nX-Velocity-Key: alice\r\n\r\nDELETE"))))
		got <- string(head)
	}()
	r := request(t, http.MethodGet, "http://"+listen+"/", "")
	r.SetBasicAuth("alice\r\n\r\nDELETE /all HTTP/1.0\r\n", right)
	if _, err := send(t, r, "127.0.1.1"); err != nil {
		t.Fatal(err)
	}
	if want := "GET / HTTP/1.0\r\nX-Velocity-Key: alice\r\n\r\nDELETE"; <-got != want {
		t.Errorf("nginx does not write line breaks of $remote_user any more: the page may say so")
	}
}
