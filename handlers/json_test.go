package handlers

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"velocityd/service"
	"velocityd/service/access"
)

// limitsOf is a request of the Rate Limit Service about a bucket of zone 1.
func limitsOf(key string) string {
	return fmt.Sprintf(`{"domain":"login","descriptors":[{"entries":[{"key":"zone_1","value":%q}]}]}`, key)
}

func TestJSONRateLimitAnswersMatchEnvoysOwnService(t *testing.T) {
	t.Parallel()
	r := startGate(t, nil)
	for i, want := range []int{200, 200, 429} {
		// As curl -d.
		got := r.ask(t, http.MethodPost, "/json", limitsOf("alice"), "Content-Type", "application/x-www-form-urlencoded")
		code := map[int]string{200: `"overallCode":"OK"`, 429: `"overallCode":"OVER_LIMIT"`}[want]
		if got.status != want || !strings.Contains(strings.ReplaceAll(got.body, " ", ""), code) ||
			(got.header.Get("Retry-After") != "") != (want == 429) ||
			got.header.Get("Ratelimit") == "" {
			t.Errorf("request %d: %d %v %s", i+1, got.status, got.header, got.body)
		}
	}
	for body, code := range map[string]string{
		`{`: "invalid_request", `{"domain":"login"}`: "invalid_request",
		`{"domain":"login","users":["alice"]}`:                                              "invalid_request",
		`{"domain":"login","descriptors":[{"entries":[{"key":"zone_9","value":"alice"}]}]}`: "not_found",
	} {
		status := map[string]int{"invalid_request": http.StatusBadRequest, "not_found": http.StatusNotFound}[code]
		got := r.ask(t, http.MethodPost, "/json", body)
		if p := got.refused(t, status, code); strings.Contains(p.Detail, "alice") ||
			strings.Contains(r.log.String(), "alice") {
			t.Errorf("%s: a value is repeated: %s", body, got.body)
		}
	}
	r.ask(t, http.MethodPost, "/json", strings.Repeat(" ", 64<<10)+limitsOf("alice")).refused(
		t, http.StatusRequestEntityTooLarge, "payload_too_large")
	r.ask(t, http.MethodPost, "/json", limitsOf("bob"), "Sec-Fetch-Site", "cross-site").refused(t, http.StatusForbidden,
		"foreign_origin")
	for _, line := range []string{
		`"route":"/json","status":429`,
		`"msg":"request refused","method":"POST","route":"/json","status":400`,
	} {
		if !strings.Contains(r.log.String(), line) {
			t.Errorf("the log has no line with %s: %s", line, r.log.String())
		}
	}
}

func TestJSONRateLimitRequestNeedsScopesOfQuestion(t *testing.T) {
	t.Parallel()
	g := guard(t)
	look := strings.Replace(limitsOf("alice"), `"entries"`, `"hitsAddend":"0","entries"`, 1)
	check := g.as("lua", []int64{1}, access.ScopeCheck)
	g.ask(t, http.MethodPost, "/json", limitsOf("alice"), check...).answered(t, http.StatusOK)
	g.ask(t, http.MethodPost, "/json", look, check...).refused(t, http.StatusForbidden, "missing_scope")
	g.ask(t, http.MethodPost, "/json", strings.Replace(limitsOf("alice"), "zone_1", "zone_2", 1), check...).refused(
		t, http.StatusForbidden, "missing_scope")
	g.ask(t, http.MethodPost, "/json", limitsOf("alice")).refused(t, http.StatusUnauthorized, "unauthenticated")
}

func TestHealthcheckIsTheReadiness(t *testing.T) {
	t.Parallel()
	for err, want := range map[error]int{nil: http.StatusOK, service.ErrAway: http.StatusInternalServerError} {
		r := start(t, func(o *Options) { o.Ready = func(context.Context) error { return err } })
		if got := r.get(t, "/healthcheck"); got.status != want || got.body != map[int]string{200: "OK"}[want] {
			t.Errorf("%v: %d %q", err, got.status, got.body)
		}
	}
}
