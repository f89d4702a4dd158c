package main

import (
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	common "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	ratelimit "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	collector "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	traces "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"

	"velocityd/service"
	"velocityd/tools/enginetest"
)

// watched starts an instance with the rights of a service's account, and asks it all that makes
// every metric appear.
func watched(t *testing.T) *instanceUnderTest {
	t.Helper()
	d := enginetest.First(t).Database(t,
		service.Zone{ID: 1, Rate: 5, Window: time.Hour}, service.Zone{ID: 2, Rate: 1, Window: time.Hour, Lockout: time.Hour})
	d.SetOverride(t, service.Override{ZoneID: 1, Key: "eve", Action: service.OverrideDeny})
	must(t, environment{"VELOCITY_DSN": d.DSN}, "webhook", "add", "https://hooks.example/")
	i := start(t, environment{"VELOCITY_DSN": d.ServiceAccount(t).DSN, "VELOCITY_RETENTION": "on"},
		append([]string{"serve", "--grpc-listen", "127.0.0.1:0"}, slow...)...)
	anything := &ratelimit.RateLimitRequest{Domain: "login", Descriptors: []*common.RateLimitDescriptor{{}}}
	if _, err := i.limits(t).ShouldRateLimit(t.Context(), anything); err != nil {
		t.Error(err)
	}
	mustAsk(t, i.url+"/v1/check", `{"zone_id":1,"bucket_key":"alice"}`, http.StatusOK)
	for range 2 {
		mustAsk(t, i.url+"/v1/check", `{"zone_id":2,"bucket_key":"bob"}`, http.StatusOK)
	}
	mustAsk(t, i.url+"/v1/check", `{"zone_id":9,"bucket_key":"mallory"}`, http.StatusNotFound)
	mustAsk(t, i.url+"/v1/outcomes", `{"reports":[{"txn_id":1,"outcome":"success"}]}`, http.StatusOK)
	enginetest.Eventually(t, "the runners have told their states", func() bool {
		r, err := request(i.url+"/metrics", "")
		return err == nil && strings.Contains(r.body, "velocityd_webhook_lag_seconds{") &&
			strings.Contains(r.body, "velocityd_retention_backlog{")
	})
	return i
}

// TestRunningServiceExportsMetricsOfRulesAndDashboard looks for every name of a metric in the
// files that operators are given.
func TestRunningServiceExportsMetricsOfRulesAndDashboard(t *testing.T) {
	t.Parallel()
	i := watched(t)
	var text string
	enginetest.Eventually(t, "the census", func() bool {
		text = mustAsk(t, i.url+"/metrics", "", http.StatusOK).body
		return strings.Contains(text, "velocityd_locked_buckets{")
	})
	name := regexp.MustCompile(`\b(velocityd|process|go)_[a-z0-9_]+\b`)
	for _, file := range []string{
		"../../deploy/prometheus/velocityd.rules.yml", "../../deploy/grafana/velocityd.json",
	} {
		asked, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		// The names of recording rules have such words after a colon.
		rest := regexp.MustCompile(`\b[a-z_]+:velocityd_[a-z0-9_:]+`).ReplaceAllString(string(asked), "")
		rest = strings.ReplaceAll(rest, "velocityd_docs", "") // a label of Prometheus' own
		names := name.FindAllString(rest, -1)
		if len(names) < 10 {
			t.Errorf("%s names %d metrics", file, len(names))
		}
		slices.Sort(names)
		for _, metric := range slices.Compact(names) {
			if !regexp.MustCompile(`(?m)^` + metric + `[ {]`).MatchString(text) {
				t.Errorf("%s asks for %s, which the service does not export", file, metric)
			}
		}
	}
	for _, line := range []string{
		`velocityd_checks_total{reason="",result="allowed",zone="1"} 1`,
		`velocityd_checks_total{reason="lockout",result="blocked",zone="2"} 1`,
		`velocityd_locked_buckets{zone="2"} 1`, `velocityd_overrides{action="deny",zone="1"} 1`,
		`velocityd_refused_total{reason="unknown_zone"} 1`, `velocityd_outcomes_total{outcome="success",result="recorded"} 1`,
		`velocityd_database_up 1`, `velocityd_ready 1`,
		`velocityd_http_requests_total{code="200",method="POST",route="/v1/check"} 3`,
	} {
		if !strings.Contains(text, "\n"+line+"\n") {
			t.Errorf("there is no line %q", line)
		}
	}
	if found := regexp.MustCompile(`alice|bob|mallory|eve\b|zone="9"`).FindString(text); found != "" {
		t.Errorf("the metrics hold %q", found)
	}
	wantDocumented(t, text)
}

// wantDocumented fails unless the page for operators has each metric of the service, and no other.
func wantDocumented(t *testing.T, text string) {
	t.Helper()
	page, err := os.ReadFile("../../docs/metrics.md")
	if err != nil {
		t.Fatal(err)
	}
	var exported, documented []string
	for _, line := range regexp.MustCompile(`(?m)^# TYPE (velocityd_\w+) `).FindAllStringSubmatch(text, -1) {
		exported = append(exported, line[1])
	}
	for _, row := range regexp.MustCompile("(?m)^\\| `(velocityd_\\w+)").FindAllStringSubmatch(string(page), -1) {
		documented = append(documented, row[1])
	}
	slices.Sort(exported)
	slices.Sort(documented)
	if !slices.Equal(exported, documented) {
		t.Errorf("docs/metrics.md has the metrics\n%q\nthe service exports\n%q", documented, exported)
	}
}

// receiver takes traces as a collector does, by OTLP over HTTP.
type receiver struct {
	mu    sync.Mutex
	spans map[string][]*traces.Span // by name
	text  string                    // all that has come
}

func (r *receiver) ServeHTTP(w http.ResponseWriter, request *http.Request) {
	body, err := io.ReadAll(request.Body)
	sent := new(collector.ExportTraceServiceRequest)
	if err != nil || request.URL.Path != "/v1/traces" || proto.Unmarshal(body, sent) != nil {
		http.Error(w, "not OTLP", http.StatusBadRequest)
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.text += sent.String()
	for _, resource := range sent.GetResourceSpans() {
		for _, scope := range resource.GetScopeSpans() {
			for _, span := range scope.GetSpans() {
				r.spans[span.GetName()] = append(r.spans[span.GetName()], span)
			}
		}
	}
	w.Header().Set("Content-Type", "application/x-protobuf")
}

// TestTracesReachACollectorWithoutAKey runs a process, because the environment of OpenTelemetry is
// the process's.
func TestTracesReachACollectorWithoutAKey(t *testing.T) {
	t.Parallel()
	received := &receiver{spans: map[string][]*traces.Span{}}
	server := httptest.NewServer(received)
	t.Cleanup(server.Close)
	d := enginetest.First(t).Database(t, service.Zone{ID: 1, Rate: 5, Window: time.Hour})
	_, i := program(t, []string{
		"VELOCITY_DSN=" + d.DSN, "OTEL_EXPORTER_OTLP_ENDPOINT=" + server.URL, "OTEL_SERVICE_NAME=login-limits",
	}, append([]string{"serve", "--access-log"}, slow...)...)
	const trace, parent = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
	traced := func(method, path, body string) {
		t.Helper()
		request, err := http.NewRequestWithContext(t.Context(), method, i.url+path, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		request.Header = http.Header{
			"Content-Type": {"application/json"}, "Traceparent": {"00-" + trace + "-" + parent + "-01"},
			"User-Agent": {"secret"}, "X-Forwarded-For": {"secret"}, "X-Forwarded-User": {"secret"},
		}
		response, err := http.DefaultClient.Do(request)
		if err != nil {
			t.Fatal(err)
		}
		_ = response.Body.Close()
	}
	traced("POST", "/v1/check?secret", `{"zone_id":1,"bucket_key":"secret"}`)
	traced("POST", "/v1/checks", `{"checks":[{"zone_id":1,"bucket_key":"secret"},{"zone_id":1,"bucket_key":"secret2"}]}`)
	traced("GET", "/v1/zones/1/buckets/secret", "")
	traced("GET", "/secret", "")
	traced("SECRET", "/v1/check", "")
	if code := i.stop(t); code != exitSuccess {
		t.Errorf("exit code %d", code)
	}
	received.mu.Lock()
	defer received.mu.Unlock()
	if strings.Contains(strings.ToLower(received.text), "secret") {
		t.Errorf("the traces hold a key:\n%s", received.text)
	}
	for name, route := range map[string]string{
		"POST /v1/check": "/v1/check", "POST /v1/checks": "/v1/checks",
		"GET /v1/zones/:id/buckets/:key": "/v1/zones/:id/buckets/:key", "GET": "",
	} {
		if spans := received.spans[name]; len(spans) != 1 || hex.EncodeToString(spans[0].GetTraceId()) != trace ||
			hex.EncodeToString(spans[0].GetParentSpanId()) != parent || !strings.Contains(spans[0].String(), route) {
			t.Errorf("%s: got %v", name, spans)
		}
	}
	if len(received.spans["queue"]) != 2 || len(received.spans["decide batch"]) != 2 ||
		!strings.Contains(received.text, "login-limits") {
		t.Errorf("got %v", received.spans)
	}
	if strings.Contains(received.text, "livez") || strings.Contains(received.text, "readyz") {
		t.Error("probes are traced")
	}
	wantTraceInLog(t, i.stderr.String(), trace)
}

// wantTraceInLog fails unless the lines of requests name the trace.
func wantTraceInLog(t *testing.T, log, trace string) {
	t.Helper()
	lines := 0
	for text := range strings.Lines(log) {
		var line map[string]any
		if json.Unmarshal([]byte(text), &line) != nil || line["msg"] != "request" {
			continue
		}
		lines++
		if line["trace_id"] != trace || fmt.Sprint(line["span_id"]) == "" {
			t.Errorf("the line does not name its trace: %s", text)
		}
	}
	if lines != 5 {
		t.Errorf("%d lines of requests, want 5", lines)
	}
}
