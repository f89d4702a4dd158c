//go:build doors

package doors_test

import (
	"os"
	"path/filepath"
	"testing"
)

// startProxy starts 'velocityd proxy' in front of a world, and returns where it listens.
func startProxy(t *testing.T, w *world, replace ...string) string {
	t.Helper()
	listen := freeAddress(t)
	w.startProxyAt(t, listen, "proxy/proxy.yaml", replace...)
	return "http://" + listen
}

// startProxyAt starts 'velocityd proxy' at an address, with settings of this folder.
func (w *world) startProxyAt(t *testing.T, listen, settings string, replace ...string) {
	t.Helper()
	token := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(token, []byte(w.token), 0o600); err != nil {
		t.Fatal(err)
	}
	config := w.configure(t, settings, listen, append(replace, "/etc/velocityd/proxy.token", token)...)
	p := start(t, nil, velocityd(t), "proxy", "--config", config, "--log-format", "json", "--access-log")
	p.await(t, listen)
}
