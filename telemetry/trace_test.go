package telemetry_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"

	"velocityd/service"
	"velocityd/service/queue"
	"velocityd/telemetry"
)

func TestTracesAreOffUnlessEnvironmentAsks(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		env    map[string]string
		wanted bool
		fault  string
	}{
		{nil, false, ""},
		{map[string]string{"OTEL_SERVICE_NAME": "login"}, false, ""},
		{map[string]string{"OTEL_TRACES_EXPORTER": "otlp"}, true, ""},
		{
			map[string]string{"OTEL_TRACES_EXPORTER": "none", "OTEL_EXPORTER_OTLP_ENDPOINT": "http://collector:4318"},
			false,
			"",
		},
		{map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": "http://collector:4318"}, true, ""},
		{map[string]string{"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "http://collector:4318/v1/traces"}, true, ""},
		{map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": "http://collector:4318", "OTEL_SDK_DISABLED": "TRUE"}, false, ""},
		{map[string]string{
			"OTEL_EXPORTER_OTLP_ENDPOINT": "http://collector:4318",
			"OTEL_EXPORTER_OTLP_PROTOCOL": "http/protobuf",
		}, true, ""},
		{map[string]string{"OTEL_TRACES_EXPORTER": "zipkin"}, false, "OTEL_TRACES_EXPORTER must be otlp or none"},
		{
			map[string]string{"OTEL_TRACES_EXPORTER": "otlp", "OTEL_EXPORTER_OTLP_PROTOCOL": "grpc"},
			false,
			"must be http/protobuf",
		},
	} {
		wanted, err := telemetry.TracesWanted(func(name string) (string, bool) {
			value, ok := test.env[name]
			return value, ok
		})
		if wanted != test.wanted || (err != nil) != (test.fault != "") || err != nil &&
			!strings.Contains(err.Error(), test.fault) {
			t.Errorf("%v: got %v, %v", test.env, wanted, err)
		}
	}
}

// spans returns the recorded spans, by name.
func spans(exporter *tracetest.InMemoryExporter) map[string][]tracetest.SpanStub {
	byName := map[string][]tracetest.SpanStub{}
	for _, span := range exporter.GetSpans() {
		byName[span.Name] = append(byName[span.Name], span)
	}
	return byName
}

func TestSpanHoldsNothingCallersMayChoose(t *testing.T) {
	t.Parallel()
	exporter := tracetest.NewInMemoryExporter()
	tracing := telemetry.NewTracingTo(exporter)
	handler := tracing.Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		if r.URL.Path != "/v1/zones/1/buckets/secret" || r.Header.Get("User-Agent") != "secret" || string(body) != "secret" ||
			r.Host != "secret" {
			t.Errorf("the handler got %s %v %q", r.URL, r.Header, body)
		}
		tracing.NameRequest(r.Context(), r.Method, "/v1/zones/:id/buckets/:key")
		w.WriteHeader(http.StatusTeapot)
	}), func(*http.Request) bool { return false })
	for _, method := range []string{"GET", "SECRET"} {
		request := httptest.NewRequestWithContext(t.Context(), method, "/v1/zones/1/buckets/secret?secret",
			strings.NewReader("secret"))
		request.Host, request.RemoteAddr = "secret", "secret:1"
		request.Header.Set("User-Agent", "secret")
		request.Header.Set("X-Forwarded-For", "secret")
		request.Header.Set("Traceparent", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01")
		request.Header.Set("Baggage", "key=secret")
		recorder := httptest.NewRecorder()
		handler.ServeHTTP(recorder, request)
		if recorder.Code != http.StatusTeapot {
			t.Errorf("answered %d", recorder.Code)
		}
	}
	byName := spans(exporter)
	for _, name := range []string{"GET /v1/zones/:id/buckets/:key", "HTTP /v1/zones/:id/buckets/:key"} {
		if len(byName[name]) != 1 {
			t.Fatalf("got spans %v", byName)
		}
		span := byName[name][0]
		if span.SpanContext.TraceID().String() != "0af7651916cd43dd8448eb211c80319c" ||
			span.Parent.SpanID().String() != "b7ad6b7169203331" {
			t.Errorf("%s is not of the caller's trace", name)
		}
		has := func(key, value string) bool {
			return slices.ContainsFunc(span.Attributes,
				func(a attribute.KeyValue) bool { return string(a.Key) == key && a.Value.String() == value })
		}
		if !has("http.route", "/v1/zones/:id/buckets/:key") || !has("http.response.status_code", "418") {
			t.Errorf("%s has attributes %v", name, span.Attributes)
		}
		if text := fmt.Sprintf("%+v", span); strings.Contains(strings.ToLower(text), "secret") {
			t.Errorf("the span holds what the caller has chosen: %s", text)
		}
	}
}

func TestSkippedRequestsHaveNoSpan(t *testing.T) {
	t.Parallel()
	exporter := tracetest.NewInMemoryExporter()
	handler := telemetry.NewTracingTo(exporter).Handler(http.NotFoundHandler(), func(*http.Request) bool { return true })
	handler.ServeHTTP(httptest.NewRecorder(), httptest.NewRequestWithContext(t.Context(), "GET", "/livez", http.NoBody))
	if got := exporter.GetSpans(); len(got) > 0 {
		t.Errorf("got spans %v", got)
	}
}

// TestABatchIsLinkedToItsRequests has three checks share a call: while the first check is under
// way, they gather in the queue.
func TestABatchIsLinkedToItsRequests(t *testing.T) {
	t.Parallel()
	exporter := tracetest.NewInMemoryExporter()
	tracing := telemetry.NewTracingTo(exporter)
	calls := make(chan chan struct{})
	coalescer := queue.NewCoalescer(storeFunc(func(_ context.Context, checks []service.Check) ([]service.Decision, error) {
		done := make(chan struct{})
		calls <- done
		<-done
		return make([]service.Decision, len(checks)), nil
	}), queue.CoalescerOptions{Lanes: 1, Observe: queue.CoalescerObserver{Queued: tracing.Queued, Asked: tracing.Batch}})
	answered := make(chan error)
	ask := func(key string, traced bool) {
		handler := http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			tracing.NameRequest(r.Context(), "POST", "/"+key)
			_, err := coalescer.CheckAll(
				r.Context(), service.Call{Checks: []service.Check{check(service.Bucket{ZoneID: 1, Key: key})}})
			answered <- err
		})
		go tracing.Handler(handler, func(*http.Request) bool { return !traced }).
			ServeHTTP(httptest.NewRecorder(), httptest.NewRequestWithContext(t.Context(), "POST", "/", http.NoBody))
	}
	ask("first", true)
	first := <-calls
	for i, key := range []string{"untraced", "second", "third"} {
		ask(key, key != "untraced")
		eventually(t, key+" waits", func() bool {
			lone, _, _ := coalescer.Use()
			return lone.Waiting == i+1
		})
	}
	close(first)
	close(<-calls)
	for range 4 {
		if err := <-answered; err != nil {
			t.Error(err)
		}
	}
	eventually(t, "the spans end, which is after the answers", func() bool {
		return len(spans(exporter)["POST /third"])*len(spans(exporter)["POST /second"]) == 1
	})
	byName := spans(exporter)
	batches := byName["decide batch"]
	if len(batches) != 2 || len(byName["queue"]) != 3 {
		t.Fatalf("got %d batches and %d spans of a queue", len(batches), len(byName["queue"]))
	}
	parent, linked := byName["POST /second"][0].SpanContext, byName["POST /third"][0].SpanContext
	if batches[1].Parent.SpanID() != parent.SpanID() || batches[1].SpanKind != trace.SpanKindClient {
		t.Errorf("the batch belongs to %v, want the first traced request %v", batches[1].Parent, parent)
	}
	if links := batches[1].Links; len(links) != 1 || links[0].SpanContext.SpanID() != linked.SpanID() {
		t.Errorf("the batch is linked to %v, want %v", links, linked)
	}
}

func TestBatchErrorIsItsKindAlone(t *testing.T) {
	t.Parallel()
	exporter := tracetest.NewInMemoryExporter()
	tracing := telemetry.NewTracingTo(exporter)
	store := queue.NewCoalescer(storeFunc(func(context.Context, []service.Check) ([]service.Decision, error) {
		return nil, fmt.Errorf("%w: Duplicate entry 'secret'", service.ErrUndecided)
	}), queue.CoalescerOptions{IsStraight: true, Observe: queue.CoalescerObserver{Asked: tracing.Batch}})
	tracing.Handler(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		if _, err := store.CheckAll(r.Context(), service.Call{Checks: make([]service.Check, 3)}); !errors.Is(
			err, service.ErrUndecided) {
			t.Error(err)
		}
	}), func(*http.Request) bool { return false }).
		ServeHTTP(httptest.NewRecorder(), httptest.NewRequestWithContext(t.Context(), "POST", "/", http.NoBody))
	span := spans(exporter)["decide batch"][0]
	if text := fmt.Sprintf("%+v", span); span.Status.Code != codes.Error || !strings.Contains(text, "undecided") ||
		strings.Contains(text, "secret") {
		t.Errorf("got %s", text)
	}
}

func TestALogLineNamesItsTrace(t *testing.T) {
	t.Parallel()
	var text bytes.Buffer
	logger := slog.New(telemetry.LogHandler(slog.NewJSONHandler(&text, nil))).With(slog.String("who", "test"))
	tracing := telemetry.NewTracingTo(tracetest.NewNoopExporter())
	var span trace.SpanContext
	tracing.Handler(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		span = trace.SpanContextFromContext(r.Context())
		logger.LogAttrs(r.Context(), slog.LevelInfo, "request", slog.Int("status", 200))
	}), func(*http.Request) bool { return false }).
		ServeHTTP(httptest.NewRecorder(), httptest.NewRequestWithContext(t.Context(), "POST", "/", http.NoBody))
	var line map[string]any
	if err := json.Unmarshal(text.Bytes(), &line); err != nil {
		t.Fatal(err)
	}
	if line["trace_id"] != span.TraceID().String() || line["span_id"] != span.SpanID().String() || line["who"] != "test" ||
		line["status"] != 200.0 {
		t.Errorf("logged %v, in trace %v", line, span)
	}
	text.Reset()
	logger.LogAttrs(t.Context(), slog.LevelInfo, "ready again")
	if strings.Contains(text.String(), "trace_id") {
		t.Errorf("a line outside of a trace: %s", text.String())
	}
}
