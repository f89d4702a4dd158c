package handlers

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"velocityd/api"
)

func TestAWebhookIsAddedListedAndRemoved(t *testing.T) {
	t.Parallel()
	r, d := start(t, nil), described(t)
	post := func(path, body string) reply { return r.ask(t, "POST", path, body, "Content-Type", "application/json") }
	added := post("/v1/webhooks", `{"url":"https://hooks.example.com/x","types":["bucket.*"],"zones":[1],"description":"mail"}`)
	d.holds(t, "POST", "/v1/webhooks", added)
	var made api.MadeWebhook
	if err := json.Unmarshal([]byte(added.body), &made); err != nil || added.status != http.StatusCreated || !strings.HasPrefix(made.Secret, "whsec_") ||
		added.header.Get("Cache-Control") != "no-store" {
		t.Fatalf("got %d %s", added.status, added.body)
	}
	listed := r.get(t, "/v1/webhooks")
	d.holds(t, "GET", "/v1/webhooks", listed)
	if strings.Contains(listed.body, "whsec") || !strings.Contains(listed.body, "hooks.example.com") {
		t.Errorf("listed: %s", listed.body)
	}
	d.holds(t, "GET", "/v1/webhooks/1/deliveries", r.get(t, "/v1/webhooks/1/deliveries"))
	d.holds(t, "POST", "/v1/webhooks/1/resend", post("/v1/webhooks/1/resend", `{"event_id":"7"}`))
	if got := r.ask(t, "DELETE", "/v1/webhooks/1", ""); got.status != http.StatusNoContent {
		t.Errorf("removed: %d %s", got.status, got.body)
	}
	r.get(t, "/v1/webhooks/1/deliveries").refused(t, http.StatusNotFound, "not_found")
	post("/v1/webhooks/1/resend", `{}`).refused(t, http.StatusNotFound, "not_found")
	r.ask(t, "DELETE", "/v1/webhooks/1", "").refused(t, http.StatusNotFound, "not_found")
	for _, body := range []string{
		`{}`, `{"url":""}`, `{"url":"hooks.example.com"}`, `{"url":"ftp://hooks.example.com"}`, `{"url":"https://ann:pass@hooks.example.com"}`,
		`{"url":"https://hooks.example.com","types":[""]}`, `{"url":"https://hooks.example.com","types":["zone.*",""]}`,
		`{"url":"https://hooks.example.com","types":[null]}`, `{"url":"https://hooks.example.com","zones":[1,null]}`,
		`{"url":"https://hooks.example.com","types":["bucket"]}`, `{"url":"https://hooks.example.com","zones":[0]}`,
		`{"url":"https://hooks.example.com","secret":"mine"}`, `{"url":"https://hooks.example.com/` + strings.Repeat("x", 1024) + `"}`,
		`{"url":"https://hööks.example.com"}`, `{"url":"https://hooks.example.com/a b"}`,
		`{"url":"https://hooks.example.com","types":["zone.*"` + strings.Repeat(`,"zone.*"`, 16) + `]}`,
	} {
		post("/v1/webhooks", body).refused(t, http.StatusBadRequest, "invalid_request")
	}
}
