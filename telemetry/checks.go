package telemetry

import (
	"context"
	"errors"
	"time"

	"velocityd/service"
	"velocityd/service/queue"
)

// CountChecks counts a call of a Limiter, as its caller is answered: it is LimiterOptions.Observe.
func (m *Metrics) CountChecks(took time.Duration, checks int, decisions []service.Decision, err error) {
	if m == nil {
		return
	}
	m.checkDuration.Observe(took.Seconds())
	if err != nil {
		m.countError(err, checks)
		return
	}
	for i := range decisions {
		if decisions[i].Err != nil {
			m.countError(decisions[i].Err, 1)
			continue
		}
		m.countDecision(&decisions[i])
	}
}

// countDegraded counts a check that was answered without the database, in each of its zones.
func (m *Metrics) countDegraded(d *service.Decision) {
	for _, v := range d.Verdicts {
		zone := m.zones.of(v.Bucket.ZoneID)
		switch {
		case !d.Blocked:
			zone.degradedAllowed.Inc()
		case d.HasCause():
			zone.degradedBlocked.Inc()
		default:
			zone.degradedUnasked.Inc()
		}
	}
}

// countDecision counts a decided check, and its answer in each of its zones.
func (m *Metrics) countDecision(d *service.Decision) {
	switch {
	case d.Degraded:
		m.countDegraded(d)
		return
	case d.Blocked:
		m.decided.add("blocked", 1)
	case d.WouldBlock:
		m.decided.add("would_block", 1)
	default:
		m.decided.add("allowed", 1)
	}
	for i := range d.Verdicts {
		v := &d.Verdicts[i]
		zone := m.zones.of(v.Bucket.ZoneID)
		switch {
		case v.Blocked:
			zone.blocked[v.Reason].Inc()
		case v.WouldBlock:
			zone.wouldBlock[v.Reason].Inc()
		case d.Blocked:
			zone.blocked[service.ReasonElsewhere].Inc()
		default:
			zone.allowed.Inc()
			if !v.Unmetered && v.Remaining()*5 <= v.Rate {
				zone.nearLimit.Inc()
			}
		}
	}
}

// countError counts checks that were not decided. It counts no zone, because callers may name
// any number of zones that do not exist.
func (m *Metrics) countError(err error, checks int) {
	switch {
	case errors.Is(err, service.ErrUndecided):
		m.undecided.add(undecidedReason(err), checks)
	case errors.Is(err, service.ErrBusy):
		m.busy.add(busyReason(err), checks)
	case errors.Is(err, service.ErrNotFound):
		m.refused.add("unknown_zone", checks)
	case errors.Is(err, service.ErrConflict):
		m.refused.add("conflict", checks)
	case errors.Is(err, service.ErrInvalid):
		m.refused.add("invalid", checks)
	case errors.Is(err, service.ErrForbidden):
		m.failed.add("forbidden", checks)
	default:
		m.failed.add("internal", checks)
	}
}

func undecidedReason(err error) string {
	if errors.Is(err, context.DeadlineExceeded) {
		return "deadline"
	}
	return "connection"
}

func busyReason(err error) string {
	var busy *service.BusyError
	switch {
	case errors.Is(err, service.ErrNoKeys):
		return "no_keys"
	case errors.As(err, &busy) && busy.Held:
		return "held"
	case busy != nil:
		return "queue"
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, context.Canceled): // or the caller has left
		return "deadline"
	}
	return "database"
}

// CountBatch counts a call of the store, which is a batch.
func (m *Metrics) CountBatch(call queue.Asked) {
	if m == nil {
		return
	}
	m.batchDuration.Observe(time.Since(call.Began).Seconds())
	m.batchSize.Observe(float64(call.Checks))
	for i := range call.Decisions {
		if err := call.Decisions[i].Err; err != nil && errors.Is(err, service.ErrHeld) {
			m.heldChecks.Inc()
		}
	}
}

// Outcomes returns store with its reports counted. A report names no zone, so they
// are not counted by zone.
func (m *Metrics) Outcomes(store service.OutcomeStore) service.OutcomeStore {
	if m == nil {
		return store
	}
	return &countedOutcomes{Metrics: m, store: store}
}

type countedOutcomes struct {
	*Metrics
	store service.OutcomeStore
}

// ReportAll implements service.OutcomeStore.
func (o *countedOutcomes) ReportAll(ctx context.Context, reports []service.Report) ([]error, error) {
	receipts, err := o.store.ReportAll(ctx, reports)
	for i, report := range reports {
		result := "recorded"
		switch {
		case err != nil:
			result = "failed"
		case errors.Is(receipts[i], service.ErrNotFound):
			result = "unknown"
		case receipts[i] != nil:
			result = "conflict"
		}
		o.outcomes.WithLabelValues(string(report.Outcome), result).Inc()
	}
	return receipts, err
}
