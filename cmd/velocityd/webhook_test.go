package main

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"

	"velocityd/service"
	"velocityd/tools/enginetest"
)

// hookTaker is a program that takes events, on a real socket.
type hookTaker struct {
	url string

	mu      sync.Mutex
	secret  string
	refuses bool
	lines   []string // the type and key of each event
}

func newHookTaker(t *testing.T) *hookTaker {
	t.Helper()
	r := &hookTaker{}
	server := httptest.NewServer(r)
	t.Cleanup(server.Close)
	r.url = server.URL + "/hook"
	return r
}

// ServeHTTP implements http.Handler.
func (r *hookTaker) ServeHTTP(w http.ResponseWriter, request *http.Request) {
	r.mu.Lock()
	defer r.mu.Unlock()
	body, err := io.ReadAll(request.Body)
	verifier, unread := standardwebhooks.NewWebhook(r.secret)
	var e struct {
		Type string
		Key  string `json:"bucket_key"`
	}
	if err != nil || unread != nil || verifier.Verify(body, request.Header) != nil || json.Unmarshal(body, &e) != nil ||
		r.refuses {
		w.WriteHeader(http.StatusServiceUnavailable)
		return
	}
	r.lines = append(r.lines, e.Type+" "+e.Key)
}

func (r *hookTaker) set(secret string, refuses bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.secret, r.refuses = secret, refuses
}

func (r *hookTaker) has(line string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return strings.Contains(strings.Join(r.lines, "\n")+"\n", line+"\n")
}

// TestEventsGoToWebhookAndLogShipper runs as the account of the service. The end of a lockout of one second comes by
// itself.
func TestEventsGoToWebhookAndLogShipper(t *testing.T) {
	t.Parallel()
	zone := service.Zone{ID: 1, Rate: 0, Window: time.Minute, Lockout: time.Second}
	d := enginetest.First(t).Database(t, zone)
	owner, to := environment{"VELOCITY_DSN": d.DSN}, newHookTaker(t)
	env := environment{
		"VELOCITY_DSN": d.ServiceAccount(t).DSN, "VELOCITY_RETENTION": "on",
		"VELOCITY_WEBHOOK_HOSTS": "127.0.0.1",
	}
	instance, _ := start(t, env, "serve"), start(t, env, "serve")
	added := command(owner, nil, "webhook", "add", to.url, "--events", "bucket.*", "--zone", "1")
	if added.code != exitSuccess || !strings.HasPrefix(added.stdout, "whsec_") {
		t.Fatalf("add: exit code %d, %s%s", added.code, added.stdout, added.stderr)
	}
	to.set(strings.TrimSpace(added.stdout), true)
	over := environment{"VELOCITY_URL": instance.url}
	_ = command(over, nil, "check", "1", "alice")
	enginetest.Eventually(t, "the receiver refuses the event", func() bool {
		return strings.Contains(must(t, over, "webhook", "deliveries", "1"), "bucket.locked")
	})
	to.set(strings.TrimSpace(added.stdout), false)
	enginetest.Exec(t, d.SQL, "UPDATE webhook_delivery SET next_at = NULL")
	if got := must(t, over, "webhook", "resend", "1"); !strings.Contains(got, "will be tried again") {
		t.Errorf("resend: %s", got)
	}
	for _, line := range []string{"bucket.locked alice", "bucket.lock_ended alice"} {
		enginetest.Eventually(t, line, func() bool { return to.has(line) })
	}
	got := must(t, over, "events", "list", "--zone", "1", "--key", "alice", "--order", "asc")
	if lines := strings.Split(strings.TrimSpace(got), "\n"); len(lines) != 2 ||
		!strings.Contains(lines[1], `"cause":"time"`) {
		t.Errorf("the events are\n%s", got)
	}
	if got := must(t, owner, "webhook", "list"); strings.Contains(got, "whsec") || !strings.Contains(got, to.url) {
		t.Errorf("list: %s", got)
	}
	if got := must(t, owner, "webhook", "remove", "1"); !strings.Contains(got, "no more events") {
		t.Errorf("remove: %s", got)
	}
	if got := command(over, nil, "events", "list", "--type", "nonsense"); got.code != exitUsage {
		t.Errorf("a wrong type: exit code %d", got.code)
	}
}

func TestAWebhookThatIsNeverCalledIsRefused(t *testing.T) {
	t.Parallel()
	d := enginetest.First(t).Database(t)
	for _, c := range []struct {
		retention, hosts string
		status           int
	}{
		{"on", "", http.StatusBadRequest},
		{"on", "127.0.0.1,::1,::ffff:127.0.0.1,localhost,10.0.0.1,hooks.example.com", http.StatusCreated},
		{"off", "", http.StatusCreated}, // others call it
	} {
		i := start(
			t, environment{"VELOCITY_DSN": d.DSN, "VELOCITY_RETENTION": c.retention, "VELOCITY_WEBHOOK_HOSTS": c.hosts}, "serve")
		for _, to := range []string{
			"https://127.0.0.1/", "https://[::1]:8443/", "https://[::ffff:127.0.0.1]/", "https://localhost/x",
			"https://10.0.0.1/",
			"http://hooks.example.com/",
		} {
			r := mustAsk(t, i.url+"/v1/webhooks", `{"url":"`+to+`"}`, c.status)
			if c.status == http.StatusBadRequest && !strings.Contains(r.body, "--webhook-hosts") {
				t.Errorf("%s of %+v: %s", to, c, r.body)
			}
		}
		mustAsk(t, i.url+"/v1/webhooks", `{"url":"https://hooks.example.com/"}`, http.StatusCreated)
	}
	if n := d.Count(t, "SELECT COUNT(*) FROM webhook"); n != 15 {
		t.Errorf("%d webhooks were added", n)
	}
}
