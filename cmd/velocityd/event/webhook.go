package event

import (
	"context"

	"velocityd/service/webhook"
)

// Webhooks keeps webhooks, and makes their secrets. A *client.Client is one.
type Webhooks interface {
	AddWebhook(ctx context.Context, w webhook.Webhook, principal string) (made webhook.Webhook, secret string, err error)
	Webhooks(ctx context.Context) ([]webhook.Webhook, error)
	RemoveWebhook(ctx context.Context, id uint64, principal string) error
	Deliveries(ctx context.Context, id, after uint64) ([]webhook.Delivery, error)
	Resend(ctx context.Context, id, eventID uint64, principal string) (int, error)
}

// LocalWebhooks are those of a database.
type LocalWebhooks struct{ webhook.Store }

// AddWebhook implements Webhooks.
func (l LocalWebhooks) AddWebhook(ctx context.Context, w webhook.Webhook, principal string) (webhook.Webhook, string, error) {
	secret := webhook.NewSecret()
	made, err := l.Store.AddWebhook(ctx, w, secret, principal)
	return made, secret, err
}
