package wforce_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"velocityd/doors/wforce"
	"velocityd/handlers"
	"velocityd/handlers/admission"
	"velocityd/service"
	"velocityd/service/access"
	"velocityd/service/memory"
	"velocityd/tools/servicetest"
)

const (
	userZone    = 1
	addressZone = 2
	userRate    = 3
	denial      = "Too many attempts. Try again later."
)

// place is the door over the reference store, on a real socket.
type place struct {
	*memory.Store
	credentials *servicetest.Credentials
	door        http.Handler
	url         string // "": the door is called in this process
	token       string // "": the service is open
}

// open returns a handler over an open service.
func open(t *testing.T, change ...func(*wforce.Options)) *place {
	t.Helper()
	return newStore(t, nil).instance(t, change...)
}

// guarded returns a handler whose callers must have a token, with a token of these scopes.
func guarded(t *testing.T, scopes ...access.Scope) *place {
	t.Helper()
	credentials := new(servicetest.Credentials)
	token := credentials.AddToken(access.Caller{Name: "mail", Scopes: scopes})
	p := newStore(t, credentials).instance(t)
	p.token = token.Reveal()
	return p
}

// newStore returns a place that has no door yet.
func newStore(t *testing.T, credentials *servicetest.Credentials) *place {
	t.Helper()
	p := &place{Store: memory.New(), credentials: credentials}
	for _, zone := range []service.Zone{
		{
			ID: userZone, Rate: userRate, Window: time.Hour, Counts: service.CountsFailures,
			Keys: service.KeyRule{Kind: service.KeyUsername},
		},
		{
			ID: addressZone, Rate: 100, Window: time.Hour, Counts: service.CountsFailures,
			Keys: service.KeyRule{Kind: service.KeyIP},
		},
	} {
		p.SetZone(t, zone)
	}
	return p
}

// openInside is open without a socket, for a bubble.
func openInside(t *testing.T, change ...func(*wforce.Options)) *place {
	t.Helper()
	p := newStore(t, nil)
	p.door = p.newDoor(t, change...)
	return p
}

// instance starts another instance over p's store.
func (p *place) instance(t *testing.T, change ...func(*wforce.Options)) *place {
	t.Helper()
	other := *p
	other.door = p.newDoor(t, change...)
	server := httptest.NewServer(other.door)
	t.Cleanup(server.Close)
	other.url = server.URL
	return &other
}

func (p *place) newDoor(t *testing.T, change ...func(*wforce.Options)) http.Handler {
	t.Helper()
	o := handlers.Options{
		Limiter: service.NewLimiter(p.Store, service.LimiterOptions{Zones: p.Store, Timeout: time.Minute}), Reader: p.Store,
		Writer: p.Store, Exports: p.Store, Retention: p.Store, Webhooks: p.Store,
	}
	if p.credentials != nil {
		cache := access.NewCache(p.credentials, access.Options{})
		t.Cleanup(cache.Close)
		o.Auth = handlers.Auth{Admission: admission.Admission{Callers: cache, Txns: p.Store}}
	}
	door := wforce.Options{API: handlers.New(o), Attempts: p.Store}
	for _, c := range change {
		c(&door)
	}
	return wforce.New(door)
}

// attempts is a store of attempts that is a function.
type attempts func(ctx context.Context, id string) (service.Recall, error)

// Attempt implements wforce.Attempts.
func (a attempts) Attempt(ctx context.Context, id string) (service.Recall, error) { return a(ctx, id) }

// answering has calls of the interface whose paths end so answered by another handler.
func answering(suffix string, by http.HandlerFunc) func(*wforce.Options) {
	return func(o *wforce.Options) {
		api := o.API
		o.API = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if strings.HasSuffix(r.URL.Path, suffix) {
				by(w, r)
				return
			}
			api.ServeHTTP(w, r)
		})
	}
}

// tuple is the members of a request, by their names.
type tuple map[string]any

// login is the request of Dovecot for a login of a connection.
func login(session, user, password string) tuple {
	return tuple{
		"device_id": "", "login": user, "protocol": "imap", "pwhash": password, "remote": "203.0.113.9",
		"session_id": session, "tls": false,
	}
}

// ended is the same with an outcome.
func (t tuple) ended(success bool) tuple {
	ended := maps.Clone(t)
	ended["success"], ended["policy_reject"] = success, false
	return ended
}

// answer is what the door says.
type answer struct {
	status int // of HTTP
	header http.Header
	body   map[string]any
}

// verdict is the member status of an answer to allow.
func (a answer) verdict(t *testing.T) int {
	t.Helper()
	status, ok := a.body["status"].(float64)
	if a.status != http.StatusOK || !ok {
		t.Fatalf("status %d, %v; want an answer to allow", a.status, a.body)
	}
	return int(status)
}

// say sends a command as Dovecot does.
func (p *place) say(t *testing.T, command string, body tuple) answer {
	t.Helper()
	text, err := json.Marshal(body)
	if err != nil {
		t.Fatal(err)
	}
	return p.send(t, http.MethodPost, fmt.Sprintf("/wforce/%d/%d/?command=%s", userZone, addressZone, command), text)
}

// done is say for a command that has to succeed.
func (p *place) done(t *testing.T, command string, body tuple) {
	t.Helper()
	if a := p.say(t, command, body); a.status != http.StatusOK || a.body["status"] != "ok" {
		t.Fatalf("%s: %d %v", command, a.status, a.body)
	}
}

// send sends a request with fields of the header in pairs.
func (p *place) send(t *testing.T, method, path string, body []byte, headers ...string) answer {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, p.url+path, bytes.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	if p.token != "" {
		r.SetBasicAuth("wforce", p.token)
	}
	for pair := range slices.Chunk(headers, 2) {
		r.Header.Set(pair[0], pair[1])
	}
	response := p.answers(t, r)
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	a := answer{status: response.StatusCode, header: response.Header}
	if err := json.Unmarshal(text, &a.body); err != nil {
		t.Fatalf("%s %s: %d %s: %v", method, path, a.status, text, err)
	}
	return a
}

// answers sends a request by the socket, if there is one.
func (p *place) answers(t *testing.T, r *http.Request) *http.Response {
	t.Helper()
	if p.url == "" {
		w := httptest.NewRecorder()
		p.door.ServeHTTP(w, r)
		return w.Result()
	}
	response, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	return response
}

// of returns the txns of a user, and how many of them count.
func (p *place) of(user string) (txns []service.Txn, counted int) {
	txns = p.Txns(service.Bucket{ZoneID: userZone, Key: user})
	for _, txn := range txns {
		if txn.Counted {
			counted++
		}
	}
	return txns, counted
}
