package telemetry

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
	"go.opentelemetry.io/contrib/instrumentation/net/http/otelhttp"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/metric/noop"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"

	"velocityd/service"
	"velocityd/service/queue"
)

// ErrEnvironment says that a variable of OpenTelemetry asks for a part that is not there.
var ErrEnvironment = errors.New("unusable OTEL variable")

// TracesWanted reports whether the environment asks for traces: an exporter otlp is named, or an
// endpoint is, and the SDK is not disabled. The error wraps ErrEnvironment if another exporter
// or protocol is named than OTLP by HTTP with protobuf.
func TracesWanted(lookupEnv func(string) (string, bool)) (bool, error) {
	first := func(names ...string) string {
		for _, name := range names {
			if value, _ := lookupEnv(name); value != "" {
				return value
			}
		}
		return ""
	}
	if strings.EqualFold(first("OTEL_SDK_DISABLED"), "true") {
		return false, nil
	}
	switch exporter := first("OTEL_TRACES_EXPORTER"); exporter {
	case "otlp":
	case "none":
		return false, nil
	case "":
		if first("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT") == "" {
			return false, nil
		}
	default:
		return false, fmt.Errorf("%w: OTEL_TRACES_EXPORTER must be otlp or none; it is %q", ErrEnvironment, exporter)
	}
	protocol := first("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL")
	if protocol != "" && protocol != "http/protobuf" {
		return false, fmt.Errorf("%w: OTEL_EXPORTER_OTLP_PROTOCOL must be http/protobuf; it is %q", ErrEnvironment, protocol)
	}
	return true, nil
}

// Tracing makes spans and sends them to where the process's environment says. Its attributes
// name methods, templates of paths, statuses, numbers and kinds of error. They hold nothing that
// a caller may choose freely, since that may be a bucket key.
type Tracing struct {
	provider *sdktrace.TracerProvider
	tracer   trace.Tracer
	server   string
}

// TracingOptions configure NewTracing, besides the environment.
type TracingOptions struct {
	Version string
	// Server is the address that the service listens at, for the spans of requests.
	Server string
	// Logger gets a line if spans cannot be sent, at most one a minute.
	Logger *slog.Logger
}

// NewTracing returns a Tracing that is set up by the variables of OpenTelemetry in the process's
// environment. It connects to nothing yet. It also makes OpenTelemetry, which has one handler of
// errors for the whole process, report them to the logger. Close must be called in the end.
func NewTracing(ctx context.Context, o TracingOptions) (*Tracing, error) {
	otel.SetLogger(logr.Discard()) // it would print variables that it cannot read, with the secrets in them
	exporter, err := otlptracehttp.New(ctx)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrEnvironment, err)
	}
	described, err := resource.New(ctx,
		resource.WithTelemetrySDK(),
		resource.WithAttributes(attribute.String("service.name", "velocityd"),
			attribute.String("service.version", o.Version)),
		resource.WithFromEnv())
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrEnvironment, err)
	}
	otel.SetErrorHandler(&faults{logger: o.Logger})
	provider := sdktrace.NewTracerProvider(sdktrace.WithBatcher(exporter), sdktrace.WithResource(described))
	return &Tracing{
		provider: provider, server: o.Server,
		tracer: provider.Tracer("velocityd", trace.WithInstrumentationVersion(o.Version)),
	}, nil
}

// Close sends the spans that were not sent yet, until ctx ends.
func (t *Tracing) Close(ctx context.Context) error {
	if err := t.provider.Shutdown(ctx); err != nil {
		return fmt.Errorf("send the last spans: %w", err)
	}
	return nil
}

// faults logs the errors of OpenTelemetry: at most one a minute, because every batch of spans
// fails while the collector is away.
type faults struct {
	logger *slog.Logger
	last   atomic.Int64 // Unix seconds
}

const faultPause = time.Minute

// Handle implements otel.ErrorHandler.
func (f *faults) Handle(err error) {
	now, last := time.Now().Unix(), f.last.Load()
	if now-last < int64(faultPause/time.Second) || !f.last.CompareAndSwap(last, now) {
		return
	}
	f.logger.LogAttrs(context.Background(), slog.LevelWarn, "traces are not sent", slog.String("error", err.Error()))
}

// given is the key of the request that came, in the context of its stand-in.
type given struct{}

// Handler returns next with a span for each request but those that skip names. The span belongs
// to the caller's trace if the request has a traceparent (W3C Trace Context).
func (t *Tracing) Handler(next http.Handler, skip func(*http.Request) bool) http.Handler {
	restoring := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		request := r.Context().Value(given{}).(*http.Request).WithContext(r.Context()) //nolint:errcheck // the handler below has set it
		request.Body = r.Body
		next.ServeHTTP(w, request)
	})
	traced := otelhttp.NewHandler(restoring, "",
		otelhttp.WithTracerProvider(t.provider), otelhttp.WithMeterProvider(noop.NewMeterProvider()),
		otelhttp.WithPropagators(propagation.TraceContext{}), otelhttp.WithServerName(t.server))
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if skip(r) {
			next.ServeHTTP(w, r)
			return
		}
		traced.ServeHTTP(w, standIn(r))
	})
}

// standIn returns a copy of r with only the parts that a span may show. otelhttp makes attributes of the
// path, the caller's address, X-Forwarded-For and the user agent, and each of them may be a bucket key. The
// body is r's.
func standIn(r *http.Request) *http.Request {
	method := knownMethod(r.Method)
	if method == other {
		method = ""
	}
	header := http.Header{}
	for _, name := range []string{"Traceparent", "Tracestate"} {
		if values := r.Header[name]; values != nil {
			header[name] = values
		}
	}
	request := &http.Request{
		Method: method, Proto: r.Proto, ProtoMajor: r.ProtoMajor, ProtoMinor: r.ProtoMinor,
		Header: header, Body: r.Body, ContentLength: r.ContentLength, TLS: r.TLS,
	}
	return request.WithContext(context.WithValue(r.Context(), given{}, r))
}

// NameRequest gives the span of a request in ctx its name, when the route is known. route is the
// template of the path, or "" if no route matches.
func (t *Tracing) NameRequest(ctx context.Context, method, route string) {
	span := trace.SpanFromContext(ctx)
	if !span.IsRecording() {
		return
	}
	name := knownMethod(method)
	if name == other {
		name = "HTTP"
	}
	if route != "" {
		name += " " + route
		span.SetAttributes(attribute.String("http.route", route))
	}
	span.SetName(name)
}

// Queued records a span for the time that a check waited in a queue. ctx is its caller's.
func (t *Tracing) Queued(ctx context.Context, joined, taken time.Time) {
	if !trace.SpanFromContext(ctx).IsRecording() {
		return
	}
	if taken.Before(joined) {
		taken = joined
	}
	_, span := t.tracer.Start(ctx, "queue", trace.WithTimestamp(joined))
	span.End(trace.WithTimestamp(taken))
}

// Batch records a span for a call of the store, which is a batch: its parent is the request of the first traced
// caller, and it has links to the requests of the others.
func (t *Tracing) Batch(call queue.Asked) {
	var links []trace.Link
	var parent trace.Span
	for caller := range call.Callers() {
		span := trace.SpanFromContext(caller)
		switch {
		case !span.IsRecording():
		case parent == nil:
			parent = span
		default:
			links = append(links, trace.Link{SpanContext: span.SpanContext()})
		}
	}
	if parent == nil {
		return
	}
	_, span := t.tracer.Start(trace.ContextWithSpan(context.Background(), parent), "decide batch",
		trace.WithTimestamp(call.Began),
		trace.WithSpanKind(trace.SpanKindClient), trace.WithLinks(links...),
		trace.WithAttributes(attribute.String("db.system.name", "mysql"),
			attribute.Int("db.operation.batch.size", call.Checks)))
	defer span.End()
	if call.Err != nil {
		// Not its text, which may be the engine's, and quote a key.
		span.SetAttributes(attribute.String("error.type", kindOf(call.Err)))
		span.SetStatus(codes.Error, "")
	}
}

func kindOf(err error) string {
	for _, kind := range []error{
		service.ErrStaleKey, service.ErrHeld, service.ErrUndecided, service.ErrBusy, service.ErrForbidden,
	} {
		if errors.Is(err, kind) {
			return kind.Error()
		}
	}
	return "internal"
}
