//go:build !no_grpc

package main

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	common "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	ratelimit "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"

	"velocityd/tools/enginetest"
)

// messages limits users, but not those of one name, callers of one path by their address, and tries a limit out.
const messages = `
domain: messages
descriptors:
  - key: user
    rate_limit: {unit: hour, requests_per_unit: 2}
  - key: user
    value: robot
    rate_limit: {unlimited: true}
  - key: user
    value: banned
    rate_limit: {unit: hour, requests_per_unit: 0}
  - key: path
    value: /send
    descriptors:
      - key: remote_address
        rate_limit: {unit: day, requests_per_unit: 1}
      - key: remote_address
        value: 192.0.2.9
  - key: trial
    shadow_mode: true
    rate_limit: {unit: minute, requests_per_unit: 0}
`

func TestLimitsOfRatelimitHoldAfterTheirImport(t *testing.T) {
	t.Parallel()
	env := environment{"VELOCITY_DSN": enginetest.First(t).Database(t).DSN}
	dir := t.TempDir()
	must(t, env, "import", "ratelimit", fileOf(t, "ratelimit.yaml", messages), "--out", dir)
	must(t, env, "zone", "apply", "--yes", filepath.Join(dir, "zones.yaml"))
	gates := filepath.Join(dir, "gates.yaml")
	must(t, env, "gate", "lint", gates)
	i := spawn(t, exec.CommandContext(context.Background(), os.Args[0], "serve", "--listen", "127.0.0.1:0",
		"--grpc-listen", "127.0.0.1:0",
		"--gates", gates, "--log-format", "json"), []string{"VELOCITY_DSN=" + env["VELOCITY_DSN"]})
	holdMessages(t, i.limits(t))
	if code := i.stop(t); code != exitSuccess {
		t.Errorf("exit code %d: %s", code, i.stderr.String())
	}
}

// holdMessages asks a service that has the limits of messages.
func holdMessages(t *testing.T, service ratelimit.RateLimitServiceClient) {
	t.Helper()
	const ok, over = ratelimit.RateLimitResponse_OK, ratelimit.RateLimitResponse_OVER_LIMIT
	for _, c := range []struct {
		entries string
		want    []ratelimit.RateLimitResponse_Code
	}{
		{"user=alice", []ratelimit.RateLimitResponse_Code{ok, ok, over}},
		{"user=bob", []ratelimit.RateLimitResponse_Code{ok, ok, over}},
		{"user=robot", []ratelimit.RateLimitResponse_Code{ok, ok, ok}},
		{"user=banned", []ratelimit.RateLimitResponse_Code{over}},
		{"path=/send remote_address=192.0.2.1", []ratelimit.RateLimitResponse_Code{ok, over}},
		{"path=/send remote_address=192.0.2.2", []ratelimit.RateLimitResponse_Code{ok, over}},
		{"path=/send remote_address=192.0.2.9", []ratelimit.RateLimitResponse_Code{ok, ok}},
		{"path=/read remote_address=192.0.2.1", []ratelimit.RateLimitResponse_Code{ok, ok}},
		{"path=/send", []ratelimit.RateLimitResponse_Code{ok, ok}},
		{"trial=1", []ratelimit.RateLimitResponse_Code{ok, ok}},
	} {
		d := &common.RateLimitDescriptor{}
		for entry := range strings.FieldsSeq(c.entries) {
			key, value, _ := strings.Cut(entry, "=")
			d.Entries = append(d.Entries, &common.RateLimitDescriptor_Entry{Key: key, Value: value})
		}
		for n, want := range c.want {
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			got, err := service.ShouldRateLimit(
				ctx, &ratelimit.RateLimitRequest{Domain: "messages", Descriptors: []*common.RateLimitDescriptor{d}})
			cancel()
			if err != nil || got.GetOverallCode() != want {
				t.Errorf("%s, request %d: %v %v, want %v", c.entries, n+1, got, err, want)
			}
		}
	}
}
