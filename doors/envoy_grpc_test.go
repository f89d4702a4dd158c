//go:build doors

package doors_test

import (
	"fmt"
	"os/exec"
	"strings"
	"testing"

	"velocityd/service"
)

// grpcurl calls a method over gRPC, whose message it learns by reflection. Without a method it lists the services.
func grpcurl(t *testing.T, address, token, method, message string) (string, error) {
	t.Helper()
	args := []string{
		"-plaintext", "-max-time", "20", "-H", "authorization: Bearer " + token, "-d", message, address,
		method,
	}
	if method == "" {
		args = []string{"-plaintext", address, "list"}
	}
	out, err := exec.CommandContext(t.Context(), gateway(t, "grpcurl"), args...).CombinedOutput()
	return string(out), err
}

const shouldRateLimit = "envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit"

func TestGrpcurlByReflectionGetsRateAndNoMore(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "--require-auth")
	address := w.grpc
	services, err := grpcurl(t, address, "", "", "")
	if err != nil {
		t.Fatalf("%v: %s", err, services)
	}
	for _, name := range []string{
		"envoy.service.ratelimit.v3.RateLimitService", "envoy.service.auth.v3.Authorization",
		"grpc.health.v1.Health",
	} {
		if !strings.Contains(services, name+"\n") {
			t.Errorf("the services are %s", services)
		}
	}
	if out, err := grpcurl(t, address, "", "grpc.health.v1.Health/Check", `{"service":"ratelimit"}`); err != nil ||
		!strings.Contains(out, "SERVING") {
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
	if out, err := grpcurl(t, address, w.token, shouldRateLimit, public); err != nil ||
		!strings.Contains(out, fmt.Sprintf(`"limitRemaining": %d`, addressRate-userRate-1)) {
		t.Errorf("by a rule of the file: %v: %s", err, out)
	}
	if out, err := grpcurl(t, address, printedToken, shouldRateLimit, alice); err == nil ||
		!strings.Contains(out, "Unauthenticated") {
		t.Errorf("a wrong token: %v: %s", err, out)
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
	if out := ask("public", "remote_address=192.0.2.9,attempt_id=one"); !strings.Contains(
		out, fmt.Sprint("limit_remaining:", addressRate-1)) {
		t.Errorf("by a rule of the file: %s", out)
	}
	if n := len(w.db.Txns(t, service.Bucket{ZoneID: addressZone, Key: "192.0.2.9"})); n != 1 {
		t.Errorf("the address has %d txns, want 1", n)
	}
}
