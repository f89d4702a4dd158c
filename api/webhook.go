package api

import (
	"velocityd/service"
	"velocityd/service/event"
	"velocityd/service/webhook"
)

// WebhookRequest is the body of POST /v1/webhooks.
type WebhookRequest struct {
	URL         string       `json:"url"`
	Types       []event.Type `json:"types,omitzero"`
	Zones       []int64      `json:"zones,omitzero"`
	Description string       `json:"description,omitzero"`
}

// Webhook is a receiver of events.
type Webhook struct {
	ID          ID           `json:"id"`
	URL         string       `json:"url"`
	Types       []event.Type `json:"types,omitzero"`
	Zones       []int64      `json:"zones,omitzero"`
	Description string       `json:"description"`
	CreatedAt   Instant      `json:"created_at"`
	CreatedBy   string       `json:"created_by"`
	Position    ID           `json:"position,omitzero"`
	Waiting     int          `json:"waiting"`
	Dead        int          `json:"dead"`
	Lag         int64        `json:"lag"` // in seconds
	SucceededAt Instant      `json:"succeeded_at,omitzero"`
	FailedAt    Instant      `json:"failed_at,omitzero"`
	Error       string       `json:"error,omitzero"`
	// Secret is there in the answer to POST alone.
	Secret string `json:"secret,omitzero"`
}

// Webhooks is the answer of GET /v1/webhooks.
type Webhooks struct {
	Webhooks []Webhook `json:"webhooks"`
}

// NewWebhook returns the answer for a webhook, without its secret.
func NewWebhook(w webhook.Webhook) Webhook {
	s := w.State
	return Webhook{
		ID: ID(w.ID), URL: w.URL, Types: w.Types, Zones: w.Zones, Description: w.Description, CreatedAt: Instant(w.CreatedAt.Time),
		CreatedBy: w.CreatedBy, Position: ID(s.Position), Waiting: s.Waiting, Dead: s.Dead, Lag: service.WholeSeconds(s.Lag.Duration),
		SucceededAt: Instant(s.SucceededAt.Time), FailedAt: Instant(s.FailedAt.Time), Error: s.Error,
	}
}

// NewWebhooks returns the answer for all webhooks.
func NewWebhooks(list []webhook.Webhook) Webhooks {
	answer := Webhooks{Webhooks: make([]Webhook, len(list))}
	for i, w := range list {
		answer.Webhooks[i] = NewWebhook(w)
	}
	return answer
}

// Webhook converts the answer to the type of package webhook.
func (w Webhook) Webhook() webhook.Webhook {
	return webhook.Webhook{
		ID: uint64(w.ID), URL: w.URL, Types: w.Types, Zones: w.Zones, Description: w.Description, CreatedAt: service.At(w.CreatedAt.Time()),
		CreatedBy: w.CreatedBy, State: webhook.State{
			Position: uint64(w.Position), Waiting: w.Waiting, Dead: w.Dead, Lag: service.Lasting(service.Seconds(w.Lag)),
			SucceededAt: service.At(w.SucceededAt.Time()), FailedAt: service.At(w.FailedAt.Time()), Error: w.Error,
		},
	}
}

// Delivery is an event that a webhook has not received at its first try.
type Delivery struct {
	EventID   ID         `json:"event_id"`
	Type      event.Type `json:"type,omitzero"`
	ZoneID    int64      `json:"zone_id,omitzero"`
	BucketKey string     `json:"bucket_key,omitzero"`
	Tries     int        `json:"tries"`
	// NextAt is left out for one that is tried no more.
	NextAt Instant `json:"next_at,omitzero"`
	Error  string  `json:"error,omitzero"`
}

// Deliveries is the answer of GET /v1/webhooks/{id}/deliveries.
type Deliveries struct {
	Deliveries []Delivery `json:"deliveries"`
}

// NewDeliveries returns the answer for deliveries.
func NewDeliveries(list []webhook.Delivery) Deliveries {
	answer := Deliveries{Deliveries: make([]Delivery, len(list))}
	for i, d := range list {
		answer.Deliveries[i] = Delivery{ID(d.EventID), d.Type, d.Bucket.ZoneID, d.Bucket.Key, d.Tries, Instant(d.NextAt.Time), d.Error}
	}
	return answer
}

// List converts the answer to the type of package webhook.
func (d Deliveries) List() []webhook.Delivery {
	list := make([]webhook.Delivery, len(d.Deliveries))
	for i, one := range d.Deliveries {
		list[i] = webhook.Delivery{
			EventID: uint64(one.EventID), Type: one.Type, Bucket: service.Bucket{ZoneID: one.ZoneID, Key: one.BucketKey},
			Tries: one.Tries, NextAt: service.At(one.NextAt.Time()), Error: one.Error,
		}
	}
	return list
}

// ResendRequest is the body of POST /v1/webhooks/{id}/resend. Without an event it means all dead deliveries.
type ResendRequest struct {
	EventID ID `json:"event_id,omitzero"`
}

// Resent is its answer.
type Resent struct {
	Resent int `json:"resent"`
}
