//go:build doors

package doors_test

import (
	"net/http"
	"testing"

	"velocityd/service"
)

// TestToReadThePageOfALoginFormIsFree has a browser read the page more often than either zone allows, and log in then.
func TestToReadThePageOfALoginFormIsFree(t *testing.T) {
	t.Parallel()
	for name, start := range map[string]func(*testing.T, *world, ...string) string{
		"nginx": startNginx, "caddy": startCaddy("caddy"), "caddy-module": startCaddy("caddy-module"), "haproxy": startHAProxy,
		"traefik": startTraefik, "envoy": startEnvoy, "envoy over gRPC": startEnvoyOverGRPC,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			const from = "127.0.1.1"
			w := newWorld(t)
			w.app.report = nil
			at, door := start(t, w), door{login: form}
			for i := range addressRate + 1 {
				page, err := send(t, request(t, http.MethodGet, at+"/login?next=%2Fhome", ""), from)
				if err != nil || page.status != http.StatusUnauthorized {
					t.Fatalf("page %d: status %d %s (%v), want the application's 401", i+1, page.status, page.body, err)
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
