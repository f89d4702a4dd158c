package envoy_test

import (
	"context"
	"encoding/json"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	auth "github.com/envoyproxy/go-control-plane/envoy/service/auth/v3"
	ratelimit "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"velocityd/doors/envoy"
	"velocityd/service"
	"velocityd/tools/handlerstest"
)

// away has buckets that cannot be read now.
type away struct{ envoy.Buckets }

func (away) Zone(context.Context, int64) (service.Zone, error) {
	return service.Zone{}, service.ErrBusy
}

func TestEachCallIsInAccessLogAndCounted(t *testing.T) {
	t.Parallel()
	o, log, seen := options(t), &handlerstest.Log{}, make(chan envoy.Observed, 6)
	o.Gates, o.Logger, o.AccessLog = gates(t, form), slog.New(slog.NewJSONHandler(log, nil)), true
	o.Buckets = away{}
	o.Observe = func(c envoy.Observed) { seen <- c }
	conn, _ := dial(t, o)
	limits, gate := ratelimit.NewRateLimitServiceClient(conn), auth.NewAuthorizationClient(conn)
	_, _ = limits.ShouldRateLimit(t.Context(), request(of("zone_1", "alice")))
	_, _ = limits.ShouldRateLimit(t.Context(), request(of("zone_x", "alice")))
	_, _ = limits.ShouldRateLimit(t.Context(), request(of("zone_9", "alice")))
	_, _ = limits.ShouldRateLimit(t.Context(), request(peek("zone_1", "alice")))
	_, _ = gate.Check(t.Context(), asked("form", "/", "user=alice"))
	_, _ = gate.Check(t.Context(), asked("nobody", "/", "user=alice"))
	limit, check := "/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit",
		"/envoy.service.auth.v3.Authorization/Check"
	want := []envoy.Observed{
		{Route: limit, Status: "OK"},
		{Route: limit, Status: "InvalidArgument", Refused: "invalid_request"},
		{Route: limit, Status: "NotFound"},
		{Route: limit, Status: "Unavailable"},
		{Route: check, Status: "OK"},
		{Route: check, Status: "NotFound", Refused: "not_found"},
	}
	for i := range want {
		if got := <-seen; got != want[i] {
			t.Errorf("counted %+v, want %+v", got, want[i])
		}
	}
	var calls []envoy.Observed
	for line := range strings.Lines(log.String()) {
		var l struct {
			Msg, Method, Route, Status string
			TxnID                      string `json:"txn_id"`
			Duration                   int
		}
		if err := json.Unmarshal([]byte(line), &l); err != nil {
			t.Fatal(err)
		}
		if l.Msg != "request" {
			continue
		}
		calls = append(calls, envoy.Observed{Route: l.Route, Status: l.Status})
		if l.Method != "gRPC" || l.Duration <= 0 || (l.TxnID != "") != (l.Status == "OK") {
			t.Errorf("the line %s", line)
		}
	}
	for i := range want {
		want[i].Refused = ""
	}
	if !slices.Equal(calls, want) || strings.Contains(log.String(), "alice") ||
		strings.Count(log.String(), "request refused") != 3 {
		t.Errorf("the log is %s", log.String())
	}
}

// panicking is a Checker with a fault.
type panicking struct{}

func (panicking) CheckAll(_ context.Context, checks []service.Check) ([]service.Decision, error) {
	panic(checks[0].Buckets[0].Key)
}

func TestPanickingCallIsErrorAndServerGoesOn(t *testing.T) {
	t.Parallel()
	log := &handlerstest.Log{}
	conn, _ := dial(t, envoy.Options{Limiter: panicking{}, Logger: slog.New(slog.NewJSONHandler(log, nil))})
	for range 2 {
		if _, err := ratelimit.NewRateLimitServiceClient(conn).ShouldRateLimit(
			t.Context(), request(of("zone_1", "alice"))); status.Code(err) != codes.Internal {
			t.Errorf("%v", err)
		}
	}
	text := log.String()
	if !strings.Contains(text, "panic: a value of type string") || !strings.Contains(text, "CheckAll") ||
		strings.Contains(text, "alice") {
		t.Errorf("the log is %s", log.String())
	}
}

func TestImpatientCallerIsLoggedOnceAMinute(t *testing.T) {
	t.Parallel()
	o, log := options(t), &handlerstest.Log{}
	o.Logger = slog.New(slog.NewJSONHandler(log, nil))
	conn, _ := dial(t, o)
	ask := func(patience time.Duration) {
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		_, _ = ratelimit.NewRateLimitServiceClient(conn).ShouldRateLimit(ctx, request(of("zone_2", "a")))
	}
	lines := func() int { return strings.Count(log.String(), "waits so briefly") }
	ask(time.Hour)
	if lines() > 0 {
		t.Errorf("a patient caller is told of: %s", log.String())
	}
	for range 100 {
		ask(400 * time.Millisecond) // on a slow machine some do not even begin
	}
	if n := lines(); n < 1 || n > 2 { // a minute may have begun in between
		t.Errorf("%d lines: %s", n, log.String())
	}
}
