//go:build !no_grpc && !no_console

package main

import (
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"time"

	ratelimit "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"

	"velocityd/service"
	"velocityd/tools/enginetest"
)

// refusal is a request to a door that refuses it, or answers it by a redirect.
type refusal struct {
	method, path, body string
	header             []string // besides the credential
	status             int
	route, code        string // of the line; the code is "" if nothing is refused
	reason             string // of the metric
}

// knock sends a request under an id, and returns the status.
func knock(t *testing.T, base, id string, c refusal) int {
	t.Helper()
	return send(t, c.method, base+c.path, c.body, append([]string{"X-Request-Id", id}, c.header...)...).status
}

// refusedOf returns how many refusals the metrics of an instance have, by reason.
func refusedOf(t *testing.T, i *instanceUnderTest, token string) map[string]string {
	t.Helper()
	text := send(t, http.MethodGet, i.url+"/metrics", "", "X-API-Key", token).body
	counts := map[string]string{}
	for _, found := range regexp.MustCompile(`velocityd_refused_total\{reason="(\w+)"\} (\d+)`).FindAllStringSubmatch(
		text, -1) {
		counts[found[1]] = found[2]
	}
	return counts
}

// TestEachDoorLogsAndCountsItsRefusals knocks at all doors of one program with --access-log.
func TestEachDoorLogsAndCountsItsRefusals(t *testing.T) {
	t.Parallel()
	_, env := databaseOf(t, service.Zone{ID: 1, Rate: 100, Window: time.Hour})
	admin := strings.TrimSpace(must(t, env, "token", "create", "admin", "--scope", "admin"))
	weak := strings.TrimSpace(must(t, env, "token", "create", "weak", "--scope", "report"))
	i := start(t, env, "serve", "--require-auth", "--access-log", "--grpc-listen", "127.0.0.1:0")
	wrong, good, less := []string{"X-Api-Key", "wrong"}, []string{"X-Api-Key", admin}, []string{"X-Api-Key", weak}
	form := func(fields ...string) []string {
		return append(fields, "Content-Type", "application/x-www-form-urlencoded")
	}
	login := func(token string) string { return url.Values{"token": {token}}.Encode() }
	const get, post, tuple = http.MethodGet, http.MethodPost, `{"login":"alice","remote":"203.0.113.9","pwhash":"1"}`
	const mail = "/wforce/{user}/{address}/"
	cases := []refusal{
		{post, "/v1/check", alice, wrong, 401, "/v1/check", "unauthenticated", "unauthenticated"},
		{get, "/v1/zones", "", wrong, 401, "/v1/zones", "unauthenticated", "unauthenticated"},
		{get, "/v1/zones", "", less, 403, "/v1/zones", "missing_scope", "scope"},
		{post, "/v1/outcomes", "{}", wrong, 401, "/v1/outcomes", "unauthenticated", "unauthenticated"},
		{post, "/json", "{}", wrong, 401, "/json", "unauthenticated", "unauthenticated"},
		{get, "/v1/gate?zone=1&key=dave", "", wrong, 400, "/v1/gate", "unauthenticated", "unauthenticated"},
		{post, "/wforce/1/0/?command=allow", tuple, wrong, 401, mail, "unauthenticated", "unauthenticated"},
		{post, "/wforce/1/0/?command=bid", tuple, good, 404, mail, "route_not_found", "unreadable"},
		{post, "/wforce/1/0/?command=allow", "secret", good, 400, mail, "invalid_request", "unreadable"},
		{post, "/wforce/1/0/?command=allow", tuple, less, 403, "/v1/check", "missing_scope", "scope"},
		{post, "/wforce/9/0/?command=allow", tuple, good, 404, "/v1/check", "not_found", "unknown_zone"},
		{post, "/console/login", login("wrong"), form(), 401, "/console/login", "unauthenticated", "unauthenticated"},
		{
			post, "/console/login", login(admin), form("Sec-Fetch-Site", "cross-site"), 403, "/console/login", "foreign_origin",
			"foreign_origin",
		},
		{
			post, "/console/logout", "", form("Origin", "https://evil.example"), 303, "/console/logout", "foreign_origin",
			"foreign_origin",
		},
		{
			get, "/console/zones", "", append(good, "Sec-Fetch-Site", "cross-site", "Sec-Fetch-Dest", "image"), 403,
			"/console/*", "foreign_origin", "foreign_origin",
		},
		{get, "/console/tokens", "", less, 403, "/console/tokens", "missing_scope", "scope"},
		{get, "/console/zones", "", nil, 303, "/console/zones", "", ""},
		{post, "/console/login", login(admin), form(), 303, "/console/login", "", ""},
		{post, "/console/logout", "", form(), 303, "/console/logout", "", ""},
	}
	want := refusedOf(t, i, admin)
	count := func(reason string) {
		n := 0
		_, _ = fmt.Sscan(want[reason], &n)
		if reason != "" {
			want[reason] = fmt.Sprint(n + 1)
		}
	}
	for n, c := range cases {
		id := fmt.Sprintf("knock-%d", n)
		count(c.reason)
		if got := knock(t, i.url, id, c); got != c.status {
			t.Errorf("%s %s: %d, want %d", c.method, c.path, got, c.status)
		}
		wantLines(t, i, id, c)
	}
	count("unauthenticated")
	if _, err := i.limits(t).ShouldRateLimit(t.Context(), &ratelimit.RateLimitRequest{Domain: "login"}); err == nil {
		t.Error("Envoy is answered without a token")
	}
	if n := strings.Count(i.stderr.String(), `"msg":"request refused","method":"gRPC"`); n != 1 {
		t.Errorf("%d lines of a refused call over gRPC", n)
	}
	if got := refusedOf(t, i, admin); fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("the metrics have %v, want %v", got, want)
	}
	if strings.Contains(i.stderr.String(), "secret") || strings.Contains(i.stderr.String(), "alice") {
		t.Error("the log has what a caller wrote")
	}
}

// wantLines waits for the line of a request, and looks for the one of its refusal, which comes later.
func wantLines(t *testing.T, i *instanceUnderTest, id string, c refusal) {
	t.Helper()
	enginetest.Eventually(t, c.method+" "+c.path+" is in the log", func() bool {
		refused, isLogged := linesOf(t, i.stderr.String(), id, c)
		return isLogged && (refused == 1) == (c.code != "") && refused < 2
	})
}

// linesOf returns how many lines of a refusal the log has, and whether it has the line of the request.
func linesOf(t *testing.T, log, id string, c refusal) (refused int, isLogged bool) {
	t.Helper()
	for line := range strings.Lines(log) {
		if !strings.Contains(line, `"request_id":"`+id+`"`) {
			continue
		}
		switch {
		case strings.Contains(line, `"msg":"request refused"`):
			refused++
			if !strings.Contains(line, `"route":"`+c.route+`"`) || !strings.Contains(line, `"code":"`+c.code+`"`) {
				t.Errorf("%s %s: %s", c.method, c.path, line)
			}
		case strings.Contains(line, `"msg":"request"`) && strings.Contains(line, fmt.Sprintf(`"status":%d`, c.status)):
			isLogged = true
		}
	}
	return refused, isLogged
}
