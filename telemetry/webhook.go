package telemetry

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
)

// webhooks is the metrics of webhooks. They are the same on each instance that takes part in retention, and there are
// at most 32 of them.
type webhooks struct {
	deliveries, succeeded, lag *prometheus.GaugeVec
}

func newWebhooks(create promauto.Factory) webhooks {
	of := func(name, help string, labels ...string) *prometheus.GaugeVec {
		return create.NewGaugeVec(prometheus.GaugeOpts{Name: name, Help: help}, append([]string{"webhook"}, labels...))
	}
	return webhooks{
		deliveries: of("velocityd_webhook_deliveries",
			"Events that a webhook has not received: waiting to be tried again, or dead.", "state"),
		succeeded: of("velocityd_webhook_succeeded_timestamp_seconds",
			"When a webhook last received an event, in seconds since 1970. 0: never."),
		lag: of("velocityd_webhook_lag_seconds",
			"How long ago the oldest event was written that a webhook has neither received nor given up. 0: none."),
	}
}

// WebhookState is the state of one webhook.
type WebhookState struct {
	Waiting, Dead int
	SucceededAt   time.Time
	Lag           time.Duration
}

// NoteWebhooks notes the states of all webhooks, by their ids.
func (m *Metrics) NoteWebhooks(states map[string]WebhookState) {
	if m == nil {
		return
	}
	m.webhooks.deliveries.Reset()
	m.webhooks.succeeded.Reset()
	m.webhooks.lag.Reset()
	for id, s := range states {
		m.webhooks.deliveries.WithLabelValues(id, "waiting").Set(float64(s.Waiting))
		m.webhooks.deliveries.WithLabelValues(id, "dead").Set(float64(s.Dead))
		m.webhooks.succeeded.WithLabelValues(id).Set(seconds(s.SucceededAt))
		m.webhooks.lag.WithLabelValues(id).Set(s.Lag.Seconds())
	}
}
