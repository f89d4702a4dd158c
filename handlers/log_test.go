package handlers

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"velocityd/service"
)

func TestEachRequestIsOneLine(t *testing.T) {
	t.Parallel()
	r := start(t, nil)
	r.zones(t)
	both := `{"buckets":[` + bucketJSON(2, "secret1") + `,` + bucketJSON(1, "secret2") + `]}`
	for i, test := range []struct {
		method, path, body string
		want               map[string]any
	}{
		{"POST", "/v1/check?x=secret3", bucketJSON(1, "secret1"), map[string]any{
			"level": "INFO", "msg": "request", "method": "POST", "route": "/v1/check", "status": 200.0,
			"zone_ids": "[1]", "txn_id": "1", "blocked": false,
		}},
		{"POST", "/v1/check", both, map[string]any{"zone_ids": "[2 1]", "txn_id": "2", "blocked": false}},
		{"POST", "/v1/check", both, map[string]any{"zone_ids": "[2 1]", "txn_id": "4", "blocked": true, "level": "INFO"}},
		{"POST", "/v1/check", bucketJSON(7, "secret1"), map[string]any{
			"status": 404.0, "code": "not_found", "zone_ids": "[7]", "level": "INFO", "txn_id": nil, "error": nil,
		}},
		{"POST", "/v1/check", `{"bucket_key":"secret1"}`, map[string]any{
			"status": 400.0, "code": "invalid_request", "level": "INFO", "error": nil, "zone_ids": nil,
		}},
		{
			"POST", "/v1/checks", `{"checks":[` + bucketJSON(2, "secret1") + `,` + both + `,{},` + bucketJSON(9, "secret1") +
				`]}`,
			map[string]any{
				"route": "/v1/checks", "checks": 4.0, "blocked_checks": 2.0, "refused_checks": 2.0,
				"zone_ids": "[2 1 9]",
			},
		},
		{"GET", "/v1/zones", "", map[string]any{"method": "GET", "route": "/v1/zones"}},
		{"GET", "/v1/zones/1?q=secret3", "", map[string]any{"route": "/v1/zones/:id", "zone_ids": "[1]"}},
		{
			"GET", "/v1/txns/2", "",
			map[string]any{"route": "/v1/txns/:id", "txn_id": "2", "zone_ids": "[2]", "blocked": false},
		},
		{"GET", "/v1/zones/2/overrides/7", "", map[string]any{"override_id": "7", "zone_ids": "[2]", "status": 404.0}},
		{
			"GET", "/v1/zones/1/buckets/%73ecret%2Fsecret?secret", "",
			map[string]any{"route": "/v1/zones/:id/buckets/:key", "status": 200.0},
		},
		{"GET", "/v1/zones/1/buckets/secret/x", "", map[string]any{"status": 404.0}},
		{"POST", "/v1/zones/1/buckets/secret/release", `{"reason":"the secret told"}`, map[string]any{"status": 200.0}},
		{
			"POST", "/v1/zones/1/overrides", `{"bucket_key":"secret","action":"deny","reason":"secret"}`,
			map[string]any{"status": 201.0},
		},
		{"POST", "/v1/check", `{"zone_id":1,"bucket_key":"secret","attempt_id":"secret"}`, map[string]any{"status": 200.0}},
		{"GET", "/secret3", "", map[string]any{"route": "", "status": 404.0, "code": "route_not_found"}},
		{"GET", "/v1/zones/1/secret3", "", map[string]any{"route": "", "status": 404.0}},
		{"PUT", "/v1/check", "", map[string]any{"route": "/v1/check", "status": 405.0, "code": "method_not_allowed"}},
		{"GET", "/livez", "", map[string]any{"level": "DEBUG", "route": "/livez"}},
		{"GET", "/readyz", "", map[string]any{"level": "DEBUG", "route": "/readyz"}},
		{"GET", "/metrics", "", map[string]any{"level": "DEBUG", "route": "/metrics"}},
	} {
		got := r.ask(t, test.method, test.path, test.body, "Content-Type", "application/json")
		line, lines := r.log.lastRequest(t)
		if lines != i+1 {
			t.Fatalf("%d requests wrote %d lines", i+1, lines)
		}
		for name, want := range test.want {
			value := line[name]
			if list, ok := value.([]any); ok {
				value = fmt.Sprint(list)
			}
			if value != want {
				t.Errorf("%s %s: %s is %v, want %v", test.method, test.path, name, value, want)
			}
		}
		if line["bytes"] != float64(len(got.body)) || line["request_id"] != got.header.Get("X-Request-Id") ||
			line["duration"] == nil {
			t.Errorf("%s %s: %v", test.method, test.path, line)
		}
	}
	if text := r.log.String(); strings.Contains(text, "secret") || strings.Contains(text, "%73") {
		t.Errorf("the log holds a key, a query or a raw path:\n%s", text)
	}
}

func TestRequestIDIsTheCallersIfSane(t *testing.T) {
	t.Parallel()
	r := start(t, nil)
	seen := map[string]bool{}
	for given, kept := range map[string]bool{
		"7f3c2a90-1c5e-4b7d-9a53-0e6f4f0a7a11_1.0": true, strings.Repeat("a", 64): true,
		"": false, strings.Repeat("a", 65): false, "two words": false, "a\"b": false, "é": false, "a,b": false, "<x>": false,
	} {
		var headers []string
		if given != "" {
			headers = []string{"X-Request-Id", given}
		}
		got := r.ask(t, http.MethodGet, "/livez", "", headers...).header.Get("X-Request-Id")
		if (got == given) != kept || got == "" || seen[got] {
			t.Errorf("sent %q, answered %q", given, got)
		}
		if line := r.log.Last(t); line["request_id"] != got {
			t.Errorf("logged %v, answered %q", line["request_id"], got)
		}
		seen[got] = true
	}
}

func TestLogLineIsBounded(t *testing.T) {
	t.Parallel()
	r := start(t, nil)
	checks := make([]string, service.MaxChecks)
	for i := range checks {
		checks[i] = bucketJSON(int64(i+1), "x")
	}
	r.post(t, "/v1/checks", `{"checks":[`+strings.Join(checks, ",")+`]}`)
	r.ask(t, strings.Repeat("METHOD", 1000), "/livez", "")
	for line := range strings.Lines(r.log.String()) {
		if len(line) > 1000 {
			t.Errorf("a line of %d bytes: %.200s", len(line), line)
		}
	}
}

func TestCallerWhoLeftIsNoErrorOfOurs(t *testing.T) {
	t.Parallel()
	log := &logLines{}
	handler := New(Options{
		Logger: slog.New(slog.NewJSONHandler(log, nil)), AccessLog: true,
		Limiter: service.NewLimiter(storeFunc(func(context.Context, []service.Check) ([]service.Decision, error) {
			return nil, errors.New("asked without a caller")
		}), service.LimiterOptions{Timeout: time.Minute}),
	})
	ctx, leave := context.WithCancel(t.Context())
	leave()
	request := httptest.NewRequestWithContext(ctx, http.MethodPost, "/v1/check", strings.NewReader(bucketJSON(1, "x")))
	request.Header.Set("Content-Type", "application/json")
	handler.ServeHTTP(httptest.NewRecorder(), request)
	if line := log.Last(t); line["level"] != "INFO" || line["code"] != "busy" || strings.Count(log.String(), "\n") != 1 {
		t.Errorf("logged %s", log)
	}
}
