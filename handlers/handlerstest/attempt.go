package handlerstest

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"time"

	"velocityd/service"
)

type attempt struct {
	AttemptID string          `json:"attempt_id"`
	ExpiresAt time.Time       `json:"expires_at"`
	Outcome   service.Outcome `json:"outcome"`
	Decision  decision        `json:"decision"`
	Txns      []txn           `json:"txns"`
}

// Attempt asks GET /v1/attempts/{id}.
func (c *Client) Attempt(ctx context.Context, id string) (service.Recall, error) {
	status, answer, err := c.ask(ctx, http.MethodGet, "/v1/attempts/"+url.PathEscape(id), nil, "")
	if err != nil {
		return service.Recall{}, err
	}
	if status != http.StatusOK {
		return service.Recall{}, problemIn(answer)
	}
	var a attempt
	if err := decode(answer, &a); err != nil {
		return service.Recall{}, err
	}
	recall := service.Recall{AttemptID: a.AttemptID, Attempt: service.Attempt{Decision: a.Decision.decision(), ExpiresAt: a.ExpiresAt.UTC()}}
	for _, t := range a.Txns {
		recall.Txns = append(recall.Txns, t.txn())
	}
	if recall.Outcome() != a.Outcome {
		return recall, fmt.Errorf("outcome %q does not fit the txns", a.Outcome)
	}
	return recall, recall.Decision.Err
}
