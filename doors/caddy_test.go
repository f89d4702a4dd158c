//go:build doors

package doors_test

import (
	"strings"
	"testing"
)

// startCaddy returns how to start Debian's caddy, or the one that is built from its module.
func startCaddy(name string) func(*testing.T, *world, ...string) string {
	return func(t *testing.T, w *world, replace ...string) string {
		t.Helper()
		program, listen := gateway(t, name), freeAddress(t)
		path := w.configure(t, "caddy/Caddyfile", listen,
			append(replace, ":8000 {", listen[strings.IndexByte(listen, ':'):]+" {\n\tbind 127.0.0.1")...)
		start(t, []string{"VELOCITY_TOKEN=" + w.token}, program, "run", "--config", path, "--adapter", "caddyfile").await(
			t, listen)
		return "http://" + listen
	}
}

func TestCaddyGuardsUsersOfAuthorizationBasic(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"caddy", "caddy-module"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			door{start: startCaddy(name), login: basic, away: 502, slow: 504, busy: 503, noToken: 400, opens: true}.prove(t)
		})
	}
}
