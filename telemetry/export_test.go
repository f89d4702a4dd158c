package telemetry

import (
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
)

// NewTracingTo returns a Tracing whose spans go to an exporter of a test, each as it ends.
func NewTracingTo(exporter sdktrace.SpanExporter) *Tracing {
	provider := sdktrace.NewTracerProvider(sdktrace.WithSyncer(exporter))
	return &Tracing{provider: provider, tracer: provider.Tracer("test"), server: "127.0.0.1:8080"}
}
