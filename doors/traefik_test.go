//go:build doors

package doors_test

import (
	"net/http"
	"slices"
	"testing"

	"velocityd/tools/enginetest"
)

// startTraefik starts the program of tools/traefik, which serves by Traefik's own code: its reader of the file, its
// rules and its ForwardAuth.
func startTraefik(t *testing.T, w *world, replace ...string) string {
	t.Helper()
	program, listen := gateway(t, "traefik-forward"), freeAddress(t)
	start(t, nil, program, listen, w.configure(t, "traefik/velocityd.yml", listen, replace...)).await(t, listen)
	return "http://" + listen
}

// TestTraefikGuardsUsersOfALoginForm has the application report by the id of the txn: Traefik makes no id of the
// attempt. It can send no token, so velocityd knows it by a client certificate or, here, needs no credential.
func TestTraefikGuardsUsersOfALoginForm(t *testing.T) {
	t.Parallel()
	byTxn := func(w *world) func(*http.Request, string) error { return w.reportTxn }
	door{start: startTraefik, login: form, report: byTxn, away: 500, slow: 500, busy: 503, tells: true}.prove(t)
}

// TestTraefikRefusesFormWithInvisibleUser sends forms that the application might read otherwise than the gate.
func TestTraefikRefusesFormWithInvisibleUser(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	at := startTraefik(t, w)
	two := "username=decoy&username=alice&password=right"
	for _, path := range append(spellings(), "/login") {
		r := request(t, http.MethodPost, at+path, two)
		if answer, err := send(t, r, "127.0.1.1"); err != nil || answer.status < 400 {
			t.Errorf("%s: status %d %s (%v), want a refusal", path, answer.status, answer.body, err)
		}
	}
	r := request(t, http.MethodPost, at+"/login", "username=decoy&password=right")
	r.Header.Set("Content-Encoding", "gzip")
	if answer, err := send(t, r, "127.0.1.1"); err != nil || answer.status < 400 || len(w.app.of("decoy")) > 0 {
		t.Errorf("a coding: status %d %s (%v), want a refusal", answer.status, answer.body, err)
	}
}

func TestTraefikGuardsUsersOfAuthorizationBasic(t *testing.T) {
	t.Parallel()
	start := func(t *testing.T, w *world, replace ...string) string {
		t.Helper()
		return startTraefik(t, w, append(replace, "[Content-Type, Content-Encoding]", "[Authorization]",
			"PathRegexp(`(?i)/login`) && !Method(`GET`) && !Method(`HEAD`)", "PathPrefix(`/basic/`)",
			"/gate/traefik", "/gate/basic")...)
	}
	byTxn := func(w *world) func(*http.Request, string) error { return w.reportTxn }
	door{start: start, login: basic, report: byTxn, away: 500, slow: 500, busy: 503, tells: true}.prove(t)
}

// TestTraefikIsKnownByItsClientCertificate is for a velocityd on another machine.
func TestTraefikIsKnownByItsClientCertificate(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	secure, tls := w.overTLS(t)
	w.run(t, "token", "create", "traefik", "--scope", "check", "--client-cert", tls.client.Cert())
	w.app.report = nil
	named := []string{
		"http://127.0.0.1:8080", "https://" + secure.address, "# tls:", "tls:", "/etc/traefik/ca.pem", tls.ca,
		"/etc/traefik/client.pem", tls.client.Cert(), "/etc/traefik/client.key", tls.client.Key(),
	}
	door := door{login: form}
	at := startTraefik(t, secure, named...)
	enginetest.Eventually(t, "a login passes",
		func() bool { return door.try(t, at, "127.0.1.1", "alice", right).status == http.StatusOK })
	unnamed := append(slices.Clone(named), ", cert: /etc/traefik/client.pem, key: /etc/traefik/client.key", "")
	unnamed = append(unnamed[len(unnamed)-2:], unnamed[:len(unnamed)-2]...)
	r := door.try(t, startTraefik(t, secure, unnamed...), "127.0.1.1", "bob", right)
	if r.status != http.StatusBadRequest || len(w.app.of("bob")) > 0 {
		t.Errorf("without a certificate: status %d %s, want 400 without the application", r.status, r.body)
	}
}
