package handlers

import (
	"net/http"
	"strings"
	"testing"
)

func TestAWebhookThatCannotBeIsRefused(t *testing.T) {
	t.Parallel()
	r := start(t, nil)
	r.get(t, "/v1/webhooks/1/deliveries").refused(t, http.StatusNotFound, "not_found")
	r.post(t, "/v1/webhooks/1/resend", `{}`).refused(t, http.StatusNotFound, "not_found")
	for _, body := range []string{
		`{}`, `{"url":""}`, `{"url":"hooks.example.com"}`, `{"url":"ftp://hooks.example.com"}`,
		`{"url":"https://ann:pass@hooks.example.com"}`,
		`{"url":"https://hooks.example.com","types":[""]}`, `{"url":"https://hooks.example.com","types":["zone.*",""]}`,
		`{"url":"https://hooks.example.com","types":[null]}`, `{"url":"https://hooks.example.com","zones":[1,null]}`,
		`{"url":"https://hooks.example.com","types":["bucket"]}`, `{"url":"https://hooks.example.com","zones":[0]}`,
		`{"url":"https://hooks.example.com","secret":"mine"}`, `{"url":"https://hooks.example.com/` +
			strings.Repeat("x", 1024) + `"}`,
		`{"url":"https://hööks.example.com"}`, `{"url":"https://hooks.example.com/a b"}`,
		`{"url":"https://hooks.example.com","types":["zone.*"` + strings.Repeat(`,"zone.*"`, 16) + `]}`,
	} {
		r.post(t, "/v1/webhooks", body).refused(t, http.StatusBadRequest, "invalid_request")
	}
}
