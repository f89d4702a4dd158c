package handlers

import (
	"context"
	"fmt"
	"net/http"

	"velocityd/api"
	"velocityd/handlers/problem"
	"velocityd/service"
	"velocityd/service/webhook"
)

// Paths of webhooks.
const (
	pathWebhooks   = "/v1/webhooks"
	pathWebhook    = pathWebhooks + "/:id"
	pathDeliveries = pathWebhook + "/deliveries"
	pathResend     = pathWebhook + "/resend"
)

// listWebhooks answers GET /v1/webhooks.
func (s *server) listWebhooks(x *exchange) error {
	return s.show(x, "", func(ctx context.Context) (any, error) {
		list, err := s.Webhooks.Webhooks(ctx)
		return api.Webhooks{Webhooks: list}, err
	})
}

// addWebhook answers POST /v1/webhooks. Its answer has the secret, which cannot be read again.
func (s *server) addWebhook(x *exchange) error {
	var request api.WebhookRequest
	if err := s.read(x, &request); err != nil {
		return err
	}
	wanted := webhook.Webhook{
		URL: request.URL, Types: request.Types, Zones: request.Zones,
		Description: request.Description,
	}
	if err := wanted.Validate(); err != nil {
		return problem.PointAtField(err)
	}
	if s.Admits != nil {
		if _, err := s.Admits(request.URL); err != nil {
			return problem.PointAtField(service.NewFieldError("url", "would never be called: %v", err))
		}
	}
	secret := webhook.NewSecret()
	var made webhook.Webhook
	if err := s.changeAs(x, func(ctx context.Context, principal string) (err error) {
		made, err = s.Webhooks.AddWebhook(ctx, wanted, secret, principal)
		return err
	}); err != nil {
		return problem.ReplaceTexts(err, map[error]string{
			service.ErrConflict: fmt.Sprintf("There are %d webhooks, which is the most. Remove one first.", webhook.MaxWebhooks),
		})
	}
	x.set(fieldCacheControl, "no-store")
	x.set("Location", fmt.Sprintf("%s/%d", pathWebhooks, made.ID))
	return x.respondJSON(http.StatusCreated, api.MediaJSON, api.MadeWebhook{Webhook: made, Secret: secret})
}

// removeWebhook answers DELETE /v1/webhooks/{id}.
func (s *server) removeWebhook(x *exchange, id uint64) error {
	return s.remove(x, map[error]string{service.ErrNotFound: noWebhook(id)},
		func(ctx context.Context, principal string) error {
			return s.Webhooks.RemoveWebhook(ctx, id, principal)
		})
}

// listDeliveries answers GET /v1/webhooks/{id}/deliveries.
func (s *server) listDeliveries(x *exchange, id uint64) error {
	after, _, err := page(x.Request().URL.RawQuery)
	if err != nil {
		return err
	}
	return s.show(x, noWebhook(id), func(ctx context.Context) (any, error) {
		list, err := s.Webhooks.Deliveries(ctx, id, after)
		return api.Deliveries{Deliveries: list}, err
	})
}

// resend answers POST /v1/webhooks/{id}/resend.
func (s *server) resend(x *exchange, id uint64) error {
	var request api.ResendRequest
	if err := s.read(x, &request); err != nil {
		return err
	}
	var n int
	if err := s.changeAs(x, func(ctx context.Context, principal string) (err error) {
		n, err = s.Webhooks.Resend(ctx, id, uint64(request.EventID), principal)
		return err
	}); err != nil {
		return problem.ReplaceTexts(err, map[error]string{service.ErrNotFound: noWebhook(id)})
	}
	return x.respondJSON(http.StatusOK, api.MediaJSON, api.Resent{Resent: n})
}

func noWebhook(id uint64) string { return fmt.Sprintf("webhook %d: not found.", id) }
