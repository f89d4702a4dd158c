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

// Media types of streams of txns.
const (
	MediaNDJSON = "application/x-ndjson"
	MediaCSV    = "text/csv"
	MediaEvents = "text/event-stream"
)

// EventProblem is the name of the event with which GET /v1/txns/follow ends. Its data is a Problem.
const EventProblem = "problem"

// TxnLine is one line of a stream: a txn, or the problem by which the stream broke off. A line with a problem is the
// last one, and holds nothing else.
type TxnLine struct {
	*service.Txn
	Problem *Problem `json:"problem,omitzero"`
}

// OutcomeNone stands in a query for txns without a reported outcome.
const OutcomeNone = "none"

// Checks is the body of POST /v1/checks.
type Checks struct {
	Checks []service.Check `json:"checks"`
}

// Results is the answer of POST /v1/checks: element i answers check i.
type Results struct {
	Results []Result `json:"results"`
}

// Result is the answer of one of several checks. Exactly one member is set.
type Result struct {
	Decision *service.Decision `json:"decision,omitzero"`
	Problem  *Problem          `json:"problem,omitzero"`
}

// OutcomeRequest is the body of POST /v1/txns/{id}/outcome and of POST /v1/attempts/{id}/outcome.
type OutcomeRequest struct {
	Outcome service.Outcome `json:"outcome"`
}

// Reports is the body of POST /v1/outcomes.
type Reports struct {
	Reports []service.Report `json:"reports"`
}

// Receipts is the answer of POST /v1/outcomes: element i answers report i.
type Receipts struct {
	Results []Receipt `json:"results"`
}

// Receipt holds either the report as it is recorded or a problem.
type Receipt struct {
	service.Report
	Problem *Problem `json:"problem,omitzero"`
}

// ReleaseRequest is the body of POST /v1/zones/{id}/buckets/{key}/release.
type ReleaseRequest struct {
	Reason string `json:"reason"`
}

// ReleasesRequest is the body of POST /v1/zones/{id}/release.
type ReleasesRequest struct {
	BucketKeys []string `json:"bucket_keys"`
	Reason     string   `json:"reason"`
}

// Releases is the answer of POST /v1/zones/{id}/release: element i answers bucket i.
type Releases struct {
	Results []Released `json:"results"`
}

// Released holds either the normalised key of a released bucket or a problem.
type Released struct {
	BucketKey string   `json:"bucket_key,omitzero"`
	Problem   *Problem `json:"problem,omitzero"`
}

// Overrides is one page of a zone's overrides, by id.
type Overrides struct {
	Overrides []service.Override `json:"overrides"`
	// Next is the "after" of the next page, or 0 if this is the last one.
	Next uint64 `json:"next,string,omitzero"`
}

// Zones is the answer of GET /v1/zones.
type Zones struct {
	Zones []service.Zone `json:"zones"`
}

// Health is the answer of a service that is alive, or ready.
type Health struct {
	Status string          `json:"status"` // ok
	Since  service.Instant `json:"since,omitzero"`
}
