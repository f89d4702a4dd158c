package api

import (
	"time"

	"velocityd/service"
	"velocityd/service/access"
	"velocityd/service/event"
	"velocityd/service/webhook"
)

// Diagnosis is the answer of GET /v1/diagnosis.
type Diagnosis struct {
	At       service.Instant     `json:"at"`
	Faults   int                 `json:"faults"`
	Warnings int                 `json:"warnings"`
	Findings []service.Diagnosis `json:"findings"`
}

// NewDiagnosis returns the answer for an examination that ended at an instant.
func NewDiagnosis(list []service.Diagnosis, at time.Time) Diagnosis {
	answer := Diagnosis{At: service.At(at), Findings: list}
	for _, f := range list {
		switch f.Level {
		case "fault":
			answer.Faults++
		case "warning":
			answer.Warnings++
		}
	}
	return answer
}

// Tokens is the answer of GET /v1/tokens: one page, by id.
type Tokens struct {
	Tokens []access.Credential `json:"tokens"`
	// Next is the "after" of the next page, or 0 if this is the last one.
	Next uint64 `json:"next,omitzero"`
}

// WebhookRequest is the body of POST /v1/webhooks.
type WebhookRequest struct {
	URL         string       `json:"url"`
	Types       []event.Type `json:"types,omitzero"`
	Zones       []int64      `json:"zones,omitzero"`
	Description string       `json:"description,omitzero"`
}

// MadeWebhook is its answer. It alone has the secret.
type MadeWebhook struct {
	webhook.Webhook
	Secret string `json:"secret"`
}

// Webhooks is the answer of GET /v1/webhooks.
type Webhooks struct {
	Webhooks []webhook.Webhook `json:"webhooks"`
}

// Deliveries is the answer of GET /v1/webhooks/{id}/deliveries.
type Deliveries struct {
	Deliveries []webhook.Delivery `json:"deliveries"`
}

// ResendRequest is the body of POST /v1/webhooks/{id}/resend. Without an event it means all dead deliveries.
type ResendRequest struct {
	EventID ID `json:"event_id,omitzero"`
}

// Resent is its answer.
type Resent struct {
	Resent int `json:"resent"`
}
