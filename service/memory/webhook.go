package memory

import (
	"context"
	"fmt"
	"slices"

	"velocityd/service"
	"velocityd/service/webhook"
)

var _ webhook.Store = (*Store)(nil)

// AddWebhook implements webhook.Store. Nothing is ever sent.
func (m *Store) AddWebhook(_ context.Context, w webhook.Webhook, _, principal string) (webhook.Webhook, error) {
	if err := w.Validate(); err != nil {
		return w, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(m.webhooks) >= webhook.MaxWebhooks {
		return w, fmt.Errorf("%w: there are %d webhooks", service.ErrConflict, len(m.webhooks))
	}
	m.lastWebhook++
	w.ID, w.CreatedBy, w.CreatedAt.Time = m.lastWebhook, principal, m.now()
	m.webhooks = append(m.webhooks, w)
	return w, nil
}

// Webhooks implements webhook.Store.
func (m *Store) Webhooks(context.Context) ([]webhook.Webhook, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Clone(m.webhooks), nil
}

// RemoveWebhook implements webhook.Store.
func (m *Store) RemoveWebhook(_ context.Context, id uint64, _ string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	at := slices.IndexFunc(m.webhooks, func(w webhook.Webhook) bool { return w.ID == id })
	if at < 0 {
		return fmt.Errorf("webhook %d: %w", id, service.ErrNotFound)
	}
	m.webhooks = slices.Delete(m.webhooks, at, at+1)
	return nil
}

// Deliveries implements webhook.Store: there are none.
func (m *Store) Deliveries(_ context.Context, id, _ uint64) ([]webhook.Delivery, error) {
	_, err := m.Resend(context.Background(), id, 0, "")
	return nil, err
}

// Resend implements webhook.Store: there is nothing to send.
func (m *Store) Resend(_ context.Context, id, _ uint64, _ string) (int, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if !slices.ContainsFunc(m.webhooks, func(w webhook.Webhook) bool { return w.ID == id }) {
		return 0, fmt.Errorf("webhook %d: %w", id, service.ErrNotFound)
	}
	return 0, nil
}
