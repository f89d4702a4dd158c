//go:build doors

package doors_test

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"os/exec"
	"strings"
	"testing"

	"velocityd/service"
)

// grpcurl calls a method over gRPC, whose message it learns by reflection. Without a method it lists the services.
func grpcurl(t *testing.T, address, token, method, message string) (string, error) {
	t.Helper()
	args := []string{"-plaintext", "-max-time", "20", "-H", "authorization: Bearer " + token, "-d", message, address, method}
	if method == "" {
		args = []string{"-plaintext", address, "list"}
	}
	out, err := exec.CommandContext(t.Context(), gateway(t, "grpcurl"), args...).CombinedOutput()
	return string(out), err
}

const (
	shouldRateLimit = "envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit"
	checkRequest    = "envoy.service.auth.v3.Authorization/Check"
)

func TestGrpcurlIsAnsweredByReflectionWithTheRateAndNoMore(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "--require-auth")
	address := w.grpc
	services, err := grpcurl(t, address, "", "", "")
	if err != nil {
		t.Fatalf("%v: %s", err, services)
	}
	for _, name := range []string{"envoy.service.ratelimit.v3.RateLimitService", "envoy.service.auth.v3.Authorization", "grpc.health.v1.Health"} {
		if !strings.Contains(services, name+"\n") {
			t.Errorf("the services are %s", services)
		}
	}
	if out, err := grpcurl(t, address, "", "grpc.health.v1.Health/Check", `{"service":"ratelimit"}`); err != nil || !strings.Contains(out, "SERVING") {
		t.Errorf("health: %v: %s", err, out)
	}
	alice := `{"domain":"any","descriptors":[{"entries":[{"key":"zone_1","value":"alice"}]},{"entries":[{"key":"zone_2","value":"192.0.2.1"}]}]}`
	public := `{"domain":"public","descriptors":[{"entries":[{"key":"remote_address","value":"192.0.2.1"}]}]}`
	for i := range userRate + 1 {
		want := map[bool]string{true: `"overallCode": "OK"`, false: `"overallCode": "OVER_LIMIT"`}[i < userRate]
		if out, err := grpcurl(t, address, w.token, shouldRateLimit, alice); err != nil || !strings.Contains(out, want) {
			t.Errorf("request %d: %v: %s", i+1, err, out)
		}
	}
	if out, err := grpcurl(t, address, w.token, shouldRateLimit, public); err != nil || !strings.Contains(out, fmt.Sprintf(`"limitRemaining": %d`, addressRate-userRate-1)) {
		t.Errorf("by a rule of the file: %v: %s", err, out)
	}
	if out, err := grpcurl(t, address, printedToken, shouldRateLimit, alice); err == nil || !strings.Contains(out, "Unauthenticated") {
		t.Errorf("a wrong token: %v: %s", err, out)
	}
}

// check returns a CheckRequest of the gate "envoy": a login from an address, in JSON.
func check(t *testing.T, gate, form, address string) string {
	t.Helper()
	text, err := json.Marshal(map[string]any{"attributes": map[string]any{
		"source":            map[string]any{"address": map[string]any{"socketAddress": map[string]any{"address": address, "portValue": 4711}}},
		"contextExtensions": map[string]string{"gate": gate},
		"request": map[string]any{"http": map[string]any{
			"method": "POST", "path": "/login", "rawBody": base64.StdEncoding.EncodeToString([]byte(form)),
			"headers": map[string]string{"content-type": "application/x-www-form-urlencoded", "x-forwarded-for": "203.0.113.9"},
		}},
	}})
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func TestGrpcurlIsAnsweredByAGateAndAWrongQuestionNeverPasses(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "--require-auth")
	address := w.grpc
	const user, from = "mallory", "198.51.100.7"
	login := check(t, "envoy", "username="+user+"&password=x", from)
	for i := range userRate {
		out, err := grpcurl(t, address, w.token, checkRequest, login)
		if err != nil || !strings.Contains(out, `"okResponse"`) || !strings.Contains(out, `"x-velocity-txn-id"`) {
			t.Errorf("login %d: %v: %s", i+1, err, out)
		}
	}
	out, err := grpcurl(t, address, w.token, checkRequest, login)
	if err != nil || !strings.Contains(out, `"TooManyRequests"`) || !strings.Contains(out, `"retry-after"`) || strings.Contains(out, "okResponse") {
		t.Errorf("beyond the rate: %v: %s", err, out)
	}
	for _, b := range []service.Bucket{{ZoneID: userZone, Key: user}, {ZoneID: addressZone, Key: from}} {
		if n := len(w.db.Txns(t, b)); n != userRate+1 {
			t.Errorf("%v has %d txns, want %d", b, n, userRate+1)
		}
	}
	for name, c := range map[string]struct{ token, message string }{
		"a wrong token": {printedToken, login}, "no user": {w.token, check(t, "envoy", "password=x", from)},
		"no such gate": {w.token, check(t, "nobody", "username=bob", from)}, "no source": {w.token, check(t, "envoy", "username=bob", "")},
	} {
		out, err := grpcurl(t, address, c.token, checkRequest, c.message)
		if err != nil || !strings.Contains(out, `"BadRequest"`) || strings.Contains(out, "okResponse") {
			t.Errorf("%s: %v: %s", name, err, out)
		}
	}
}

// TestTheClientOfEnvoysOwnServiceIsAnswered runs client_cmd of envoyproxy/ratelimit.
func TestTheClientOfEnvoysOwnServiceIsAnswered(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	address := w.grpc
	ask := func(domain, descriptors string) string {
		command := exec.CommandContext(t.Context(), gateway(t, "ratelimit-client"),
			"-dial_string", address, "-domain", domain, "-descriptors", descriptors, "-descriptors", "generic_key=unlimited")
		out, err := command.CombinedOutput()
		if err != nil {
			t.Errorf("%v: %s", err, out)
		}
		return string(out)
	}
	for i := range userRate + 1 {
		want := map[bool]string{true: "overall_code:OK", false: "overall_code:OVER_LIMIT"}[i < userRate]
		if out := ask("any", "zone_1=carol"); !strings.Contains(out, want) {
			t.Errorf("request %d: %s, want %s", i+1, out, want)
		}
	}
	if out := ask("public", "remote_address=192.0.2.9,attempt_id=one"); !strings.Contains(out, fmt.Sprint("limit_remaining:", addressRate-1)) {
		t.Errorf("by a rule of the file: %s", out)
	}
	if n := len(w.db.Txns(t, service.Bucket{ZoneID: addressZone, Key: "192.0.2.9"})); n != 1 {
		t.Errorf("the address has %d txns, want 1", n)
	}
}
