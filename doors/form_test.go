//go:build doors

package doors_test

import (
	"net/http"
	"strings"
	"testing"

	"velocityd/service"
)

// TestPagesThatAreNoLoginAreFree has a browser read pages more often than either zone allows, and log in then. No other
// page than that of the form is a route of Envoy's configuration.
func TestPagesThatAreNoLoginAreFree(t *testing.T) {
	t.Parallel()
	for name, start := range map[string]func(*testing.T, *world, ...string) string{
		"nginx": startNginx, "caddy": startCaddy("caddy"), "caddy-module": startCaddy("caddy-module"),
		"haproxy": startHAProxy, "traefik": startTraefik, "envoy": startEnvoy, "envoy over gRPC": startEnvoyOverGRPC,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			const from = "127.0.1.1"
			w := newWorld(t)
			w.app.report = nil
			at, door := start(t, w), door{login: form}
			pages := map[string]int{"/login?next=%2Fhome": http.StatusUnauthorized}
			if !strings.HasPrefix(name, "envoy") {
				pages["/welcome"] = http.StatusOK
			}
			for path, want := range pages {
				for i := range addressRate + 1 {
					r := request(t, http.MethodGet, at+path, "")
					r.Header.Set("X-Velocity-Txn-Id", "999999")
					if want == http.StatusOK {
						r.SetBasicAuth("walter", right)
					}
					if page, err := send(t, r, from); err != nil || page.status != want {
						t.Fatalf("page %d: status %d %s (%v), want the application's %d", i+1, page.status, page.body, err, want)
					}
				}
			}
			for _, seen := range w.app.of("walter") {
				if id := seen.header.Get("X-Velocity-Txn-Id"); id != "" && name == "nginx" {
					t.Errorf("the application saw the client's id %s", id)
				}
			}
			if n := len(w.db.Txns(t, service.Bucket{ZoneID: addressZone, Key: from})); n > 0 {
				t.Errorf("the pages cost %d attempts, want none", n)
			}
			if r := door.try(t, at, from, "alice", right); r.status != http.StatusOK {
				t.Errorf("the login: status %d %s, want 200", r.status, r.body)
			}
			if n := len(w.db.Txns(t, service.Bucket{ZoneID: addressZone, Key: from})); n != 1 {
				t.Errorf("the login cost %d attempts, want 1", n)
			}
		})
	}
}
