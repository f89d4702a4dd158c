package client

import (
	"context"
	"fmt"
	"net/http"

	"velocityd/api"
	"velocityd/service/webhook"
)

// pathWebhooks is the path of webhooks.
const pathWebhooks = "/v1/webhooks"

// AddWebhook adds a webhook, and returns it with the secret that the service has made, which cannot be read again. The
// token needs the scope admin. principal is the caller's name, or empty.
func (c *Client) AddWebhook(
	ctx context.Context, w webhook.Webhook, principal string,
) (made webhook.Webhook, secret string, err error) {
	r := request{action: "add a webhook", method: http.MethodPost, path: pathWebhooks, principal: principal}
	if err := w.Validate(); err != nil {
		return made, "", fmt.Errorf("%s: %w", r.action, err)
	}
	r.body = api.WebhookRequest{URL: w.URL, Types: w.Types, Zones: w.Zones, Description: w.Description}
	answer, err := ask[api.MadeWebhook](ctx, c, r)
	return answer.Webhook, answer.Secret, err
}

// Webhooks returns all webhooks by id.
func (c *Client) Webhooks(ctx context.Context) ([]webhook.Webhook, error) {
	answer, err := ask[api.Webhooks](ctx, c, request{action: "list webhooks", method: http.MethodGet, path: pathWebhooks})
	return answer.Webhooks, err
}

// RemoveWebhook forgets a webhook. principal is the caller's name, or empty. The error wraps service.ErrNotFound if
// there is none.
func (c *Client) RemoveWebhook(ctx context.Context, id uint64, principal string) error {
	_, err := c.send(ctx, request{
		action: fmt.Sprintf("remove webhook %d", id), method: http.MethodDelete, path: fmt.Sprintf("%s/%d", pathWebhooks, id),
		principal: principal,
	})
	return err
}

// Deliveries returns at most webhook.MaxDeliveries deliveries of a webhook behind an event.
func (c *Client) Deliveries(ctx context.Context, id, after uint64) ([]webhook.Delivery, error) {
	answer, err := ask[api.Deliveries](ctx, c, request{
		action: fmt.Sprintf("list the deliveries of webhook %d", id), method: http.MethodGet,
		path: fmt.Sprintf("%s/%d/deliveries?after=%d", pathWebhooks, id, after),
	})
	return answer.Deliveries, err
}

// Resend has dead deliveries of a webhook tried again: that of one event, or all if the event is 0. principal is the
// caller's name, or empty.
func (c *Client) Resend(ctx context.Context, id, eventID uint64, principal string) (int, error) {
	answer, err := ask[api.Resent](ctx, c, request{
		action: fmt.Sprintf("send the dead deliveries of webhook %d again", id), method: http.MethodPost,
		path: fmt.Sprintf("%s/%d/resend", pathWebhooks, id), body: api.ResendRequest{EventID: api.ID(eventID)},
		principal: principal,
	})
	return answer.Resent, err
}
