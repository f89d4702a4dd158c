package server

import (
	"context"
	"log/slog"
	"net/http"
	"time"

	"velocityd/db/session"
	"velocityd/handlers"
	"velocityd/service"
	"velocityd/service/queue"
)

// lastSpansTimeout is how long the end of the service waits for the collector of traces.
const lastSpansTimeout = 2 * time.Second

// noteEvent counts an event of the store, and logs once a second that an address is not used. An
// engine that ends a wait is not silent.
func (s *Instance) noteEvent(event session.Event) {
	switch event {
	case session.LockWaitTimeout:
		s.metrics.CountLockWaitTimeout()
		s.checks.NoteResponse()
	case session.Deadlock:
		s.metrics.CountDeadlock()
		s.checks.NoteResponse()
	case session.Retry:
		s.metrics.CountRetry()
	case session.OtherDatabase:
		if now := time.Now().Unix(); s.otherLoggedAt.Swap(now) != now {
			s.logger.LogAttrs(context.Background(), slog.LevelError, "an address of the database leads to another database "+
				"than the one that this service has used since its start, and is not used: each of the two would admit the rate")
		}
	}
}

// countRequest counts an answered request, and names its span.
func (s *Instance) countRequest(ctx context.Context, r handlers.Observed) {
	s.metrics.CountRequest(r.Method, r.Route, r.Status)
	if r.Refused != "" {
		s.metrics.CountRefusal(r.Refused)
	}
	if s.tracing != nil {
		s.tracing.NameRequest(ctx, r.Method, r.Route)
	}
}

// coalescerObserver returns the hooks that measure and trace the lanes and the batches.
func (s *Instance) coalescerObserver() queue.CoalescerObserver {
	if s.tracing == nil && s.metrics == nil {
		return queue.CoalescerObserver{}
	}
	return queue.CoalescerObserver{
		Queued: func(ctx context.Context, joined, taken time.Time) {
			s.metrics.CountQueueWait(taken.Sub(joined))
			if s.tracing != nil {
				s.tracing.Queued(ctx, joined, taken)
			}
		},
		Asked: func(call queue.Asked) {
			s.metrics.CountBatch(call)
			if s.tracing != nil {
				s.tracing.Batch(call)
			}
		},
	}
}

// traced returns the handler with a span for each request, or as it is if there are no traces.
func (s *Instance) traced(api http.Handler) http.Handler {
	if s.tracing == nil {
		return api
	}
	return s.tracing.Handler(api, func(r *http.Request) bool { return handlers.IsProbe(r.URL.Path) })
}

// endTracing sends the last spans. A failure is no fault of the service.
func (s *Instance) endTracing() {
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
