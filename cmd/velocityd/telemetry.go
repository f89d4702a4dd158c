package main

import (
	"context"
	"log/slog"
	"net/http"
	"time"

	"velocityd/db/session"
	"velocityd/handlers"
	"velocityd/service"
	"velocityd/service/queue"
	"velocityd/telemetry"
)

// lastSpansTimeout is how long the end of the service waits for the collector of traces.
const lastSpansTimeout = 2 * time.Second

// telemetryFlags say what the service tells of itself. Traces follow the variables of
// OpenTelemetry.
type telemetryFlags struct {
	Metrics string `env:"VELOCITY_METRICS" default:"on" enum:"on,off" placeholder:"on|off" help:"on: GET /metrics answers Prometheus. off: nothing is counted, and there is no such path."`
}

// attrs returns the settings for the log.
func (f telemetryFlags) attrs() []slog.Attr { return []slog.Attr{slog.String("metrics", f.Metrics)} }

// newMetrics returns the metrics, or nil without them.
func (f telemetryFlags) newMetrics(logger *slog.Logger) *telemetry.Metrics {
	if f.Metrics == "off" {
		return nil
	}
	return telemetry.NewMetrics(version(), logger)
}

// newTracing returns what makes traces, or nil if the environment does not ask for them.
func (p *process) newTracing(ctx context.Context, f serviceFlags, logger *slog.Logger) (*telemetry.Tracing, error) {
	wanted, err := telemetry.TracesWanted(p.lookupEnv)
	switch {
	case err != nil:
		return nil, usageError{err: err}
	case !wanted:
		return nil, nil //nolint:nilnil // without traces nothing is wrapped
	}
	tracing, err := telemetry.NewTracing(ctx, telemetry.TracingOptions{Version: version(), Server: f.Listen, Logger: logger})
	if err != nil {
		return nil, usageError{err: err}
	}
	return tracing, nil
}

// noteEvent counts an event of the store, and logs once a second that an address is not used. An engine that ends a wait is not silent.
func (s *instance) noteEvent(event session.Event) {
	switch event {
	case session.LockWaitTimeout:
		s.metrics.CountLockWaitTimeout()
		s.front.hear()
	case session.Deadlock:
		s.metrics.CountDeadlock()
		s.front.hear()
	case session.Retry:
		s.metrics.CountRetry()
	case session.OtherDatabase:
		if now := time.Now().Unix(); s.toldOfOther.Swap(now) != now {
			s.logger.LogAttrs(context.Background(), slog.LevelError, "an address of the database leads to another database than the "+
				"one that this service has used since its start, and is not used: each of the two would admit the rate")
		}
	}
}

// countRequest counts an answered request, and names its span.
func (s *instance) countRequest(ctx context.Context, r handlers.Observed) {
	s.metrics.CountRequest(r.Method, r.Route, r.Status)
	if r.Refused != "" {
		s.metrics.CountRefusal(r.Refused)
	}
	if s.tracing != nil {
		s.tracing.NameRequest(ctx, r.Method, r.Route)
	}
}

// observed returns the store that decides batches, measured and traced.
func (s *instance) observed() service.CheckStore {
	store := s.metrics.Batches(s.store)
	if s.tracing != nil {
		store = s.tracing.Batches(store)
	}
	return store
}

// coalescerObserver returns what measures and traces the lanes.
func (s *instance) coalescerObserver() queue.CoalescerObserver {
	switch {
	case s.tracing == nil && s.metrics == nil:
		return queue.CoalescerObserver{}
	case s.tracing == nil:
		return queue.CoalescerObserver{Queued: func(_ context.Context, joined, taken time.Time) {
			s.metrics.CountQueueWait(taken.Sub(joined))
		}}
	}
	return queue.CoalescerObserver{
		Queued: func(ctx context.Context, joined, taken time.Time) {
			s.metrics.CountQueueWait(taken.Sub(joined))
			s.tracing.Queued(ctx, joined, taken)
		},
		Batch: s.tracing.Batch,
	}
}

// watchWith adds the metrics that are asked for at each scrape. lanes is nil if checks are not
// coalesced.
func (s *instance) watchWith(lanes func() (lone, bulk, held queue.LaneUse)) {
	s.metrics.Watch(telemetry.Sources{
		Lanes: lanes, Pools: s.store.Pools, Reached: s.readiness.reached, Ready: s.readiness.isReady,
	})
}

// traced returns the handler with a span for each request, or as it is if there are no traces.
func (s *instance) traced(api http.Handler) http.Handler {
	if s.tracing == nil {
		return api
	}
	return s.tracing.Handler(api, func(r *http.Request) bool { return handlers.IsProbe(r.URL.Path) })
}

// endTracing sends the last spans. That it cannot is no fault of the service.
func (s *instance) endTracing() {
	if s.tracing == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), lastSpansTimeout)
	defer cancel()
	if err := s.tracing.Close(ctx); err != nil {
		s.logger.LogAttrs(ctx, slog.LevelWarn, "the last traces were not sent", slog.String("error", err.Error()))
	}
}

// countedWriter is the writer of the interface with its outcomes counted.
type countedWriter struct {
	handlers.Writer
	outcomes service.OutcomeStore
}

// ReportAll implements service.OutcomeStore.
func (w countedWriter) ReportAll(ctx context.Context, reports []service.Report) ([]error, error) {
	return w.outcomes.ReportAll(ctx, reports)
}
