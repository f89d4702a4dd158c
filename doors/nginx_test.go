//go:build doors

package doors_test

import (
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
