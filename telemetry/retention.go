package telemetry

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
)

// retention is the metrics of the tasks that one instance among all repeats. They are the same on each instance that
// takes part.
type retention struct {
	succeeded, backlog, failing *prometheus.GaugeVec
	oldest                      prometheus.Gauge
}

func newRetention(create promauto.Factory) retention {
	byTask := func(name, help string) *prometheus.GaugeVec {
		return create.NewGaugeVec(prometheus.GaugeOpts{Name: name, Help: help}, []string{"task"})
	}
	return retention{
		succeeded: byTask("velocityd_retention_succeeded_timestamp_seconds",
			"When a task of retention last ran without an error, on any instance, in seconds since 1970. 0: never."),
		backlog: byTask("velocityd_retention_backlog",
			"1 if the last run of the task left work for the next one, otherwise 0."),
		failing: byTask("velocityd_retention_failing", "1 if the last run of the task ended with an error, otherwise 0."),
		oldest: create.NewGauge(prometheus.GaugeOpts{
			Name: "velocityd_oldest_txn_timestamp_seconds",
			Help: "When the oldest txn was recorded, in seconds since 1970. 0: there is none.",
		}),
	}
}

// NoteRetention notes the state of a task of retention. A zero time stands for never.
func (m *Metrics) NoteRetention(task string, succeededAt time.Time, hasBacklog, isFailing bool) {
	if m == nil {
		return
	}
	m.retention.succeeded.WithLabelValues(task).Set(seconds(succeededAt))
	m.retention.backlog.WithLabelValues(task).Set(zeroOrOne(hasBacklog))
	m.retention.failing.WithLabelValues(task).Set(zeroOrOne(isFailing))
}

// NoteOldestTxn notes when the oldest txn was recorded. A zero time stands for none.
func (m *Metrics) NoteOldestTxn(at time.Time) {
	if m != nil {
		m.retention.oldest.Set(seconds(at))
	}
}

func seconds(at time.Time) float64 {
	if at.IsZero() {
		return 0
	}
	return float64(at.UnixMilli()) / 1000
}
