//go:build doors

package doors_test

import (
	"net/http"
	"strings"
	"testing"

	"velocityd/service"
)

func startHAProxy(t *testing.T, w *world, replace ...string) string {
	t.Helper()
	program, listen := gateway(t, "haproxy"), freeAddress(t)
	path := w.configure(t, "haproxy/haproxy.cfg", listen,
		append(replace, "bind :8000", "bind "+listen, "/etc/haproxy/velocity.lua", file(t, "haproxy/velocity.lua"))...)
	start(t, []string{"VELOCITY_TOKEN=" + w.token}, program, "-db", "-f", path).await(t, listen)
	return "http://" + listen
}

func TestHAProxyGuardsUsersOfALoginForm(t *testing.T) {
	t.Parallel()
	door{start: startHAProxy, login: form, away: 503, slow: 503, busy: 503, noToken: 503, opens: true}.prove(t)
}

func TestHAProxyGuardsUsersOfAuthorizationBasic(t *testing.T) {
	t.Parallel()
	start := func(t *testing.T, w *world, replace ...string) string {
		t.Helper()
		return startHAProxy(t, w, append(replace, "acl login path,url_dec -i -m sub /login", "acl login path_beg /basic/",
			"/gate/form", "/gate/basic",
			" !METH_GET", "")...)
	}
	door{start: start, login: basic, away: 503, slow: 503, busy: 503, noToken: 503, opens: true}.prove(t)
}

// TestHAProxyRefusesFormWithInvisibleUser sends forms that the application might read otherwise than the gate.
func TestHAProxyRefusesFormWithInvisibleUser(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "--require-auth")
	at := startHAProxy(t, w)
	long := strings.Repeat("y", 32<<10)
	const one, two = "username=decoy&password=right", "username=decoy&username=alice&password=right"
	for name, c := range map[string]struct {
		path, body string
		header     string
		values     []string
	}{
		"the user stands behind 32 KiB":     {"/login", "x=" + long + "&username=alice&password=right", "", nil},
		"another user stands behind 32 KiB": {"/login", one + "&x=" + long + "&username=alice", "", nil},
		"another user stands behind long headers": {
			"/login", one + "&x=" + long[:4<<10] + "&username=alice", "Cookie",
			[]string{long[:11<<10]},
		},
		"two users, and an encoded path": {"/%6cogin", two, "", nil},
		"two types": {
			"/login", one, "Content-Type", []string{"text/plain; charset=IBM037", "application/x-www-form-urlencoded"},
		},
		"a coding": {"/login", one, "Content-Encoding", []string{"gzip"}},
	} {
		for _, inChunks := range []bool{false, true} {
			r := request(t, http.MethodPost, at+c.path, c.body)
			r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
			if c.header != "" {
				r.Header[c.header] = c.values
			}
			if inChunks {
				r.ContentLength = -1
			}
			answer, err := send(t, r, "127.0.1.1")
			// HAProxy may close before it has read all.
			if err == nil && answer.status < 400 || len(w.app.of("alice")) > 0 || len(w.app.of("decoy")) > 0 {
				t.Errorf("%s: status %d %s (%v), want a refusal without the application", name, answer.status, answer.body, err)
			}
		}
	}
}

// TestHAProxyShowsTheGateAllCredentials sends two of them, of which the application may take the other one than the
// gate.
func TestHAProxyShowsTheGateAllCredentials(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "--require-auth")
	at := startHAProxy(t, w, "/gate/form", "/gate/basic")
	r := request(t, http.MethodPost, at+"/login", "")
	r.Header["Authorization"] = []string{"Basic YWxpY2U6cmlnaHQ=", "Basic ZGVjb3k6cmlnaHQ="} // alice and decoy
	if answer, err := send(t, r, "127.0.1.1"); err != nil || answer.status < 400 || len(w.app.of("alice")) > 0 ||
		len(w.app.of("decoy")) > 0 {
		t.Errorf("status %d %s (%v), want a refusal without the application", answer.status, answer.body, err)
	}
}

// haproxyInFront is HAProxy before velocityd itself: it tells the client's address by the PROXY protocol.
const haproxyInFront = `defaults
    mode tcp
    timeout connect 1s
    timeout client 10s
    timeout server 10s
listen velocityd
    bind 127.0.0.1:8000
    server velocityd 127.0.0.1:8080 SEND
`

// TestProxyProtocolAddressCountsBehindHAProxy puts HAProxy before velocityd, without any header.
func TestProxyProtocolAddressCountsBehindHAProxy(t *testing.T) {
	t.Parallel()
	for _, option := range []string{"send-proxy", "send-proxy-v2"} {
		t.Run(option, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, "--require-auth", "--proxy-protocol")
			program, listen := gateway(t, "haproxy"), freeAddress(t)
			path := w.write(t, "haproxy.cfg", strings.Replace(haproxyInFront, "SEND", option, 1), listen)
			start(t, nil, program, "-db", "-f", path).await(t, listen)
			r := request(t, http.MethodGet, "http://"+listen+"/v1/gate", "")
			r.Header.Set("X-API-Key", w.token)
			r.Header.Set("X-Velocity-Zone", "2")
			r.Header.Set("X-Velocity-Key", "@client")
			r.Header.Set("X-Forwarded-For", "203.0.113.9")
			if answer, err := send(t, r, "127.0.1.1"); err != nil || answer.status != http.StatusNoContent {
				t.Fatalf("status %d %s (%v), want 204", answer.status, answer.body, err)
			}
			if n := len(w.db.Txns(t, service.Bucket{ZoneID: addressZone, Key: "127.0.1.1"})); n != 1 {
				t.Errorf("the client's address has %d txns, want 1", n)
			}
		})
	}
}
