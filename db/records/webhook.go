package records

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"velocityd/db/session"
	"velocityd/service"
	"velocityd/service/webhook"
)

// webhookRows leave out the secret, and how far the webhook is.
func webhookRows(id uint64) auditedRows {
	state := jsonObject("id", "url", "types", "zones", "description", "created_by", "resent_at")
	return auditedRows{webhookSubject, "webhook", "0, NULL", state, "id = ?", []any{id}}
}

// webhookSubject is the subject of webhooks in zone_audit. Their changes are no events.
const webhookSubject = "webhook"

// AddWebhook implements webhook.Store. The account needs the right to insert into webhook.
func (s *Tables) AddWebhook(ctx context.Context, w webhook.Webhook, secret, principal string) (webhook.Webhook, error) {
	if err := w.Validate(); err != nil {
		return w, err
	}
	err := s.edit(ctx, principal, func(e *edit) error {
		// All rows are locked, so that two that add the last one wait for each other. The accounts that may add webhooks may
		// lock them.
		var ids []uint64
		if err := e.SelectContext(ctx, &ids, "SELECT id FROM webhook ORDER BY id FOR UPDATE"); err != nil {
			return err
		}
		if len(ids) >= webhook.MaxWebhooks {
			return fmt.Errorf("%w: there are %d webhooks, which is the most; remove one first", service.ErrConflict, len(ids))
		}
		var err error
		if w.ID, err = insertWebhook(ctx, e, w, secret, principal); err != nil {
			return err
		}
		return e.QueryRowxContext(ctx, `
SELECT created_at, created_by, position
  FROM webhook
 WHERE id = ?`, w.ID).Scan(&w.CreatedAt.Time, &w.CreatedBy, &w.State.Position)
	})
	if err != nil {
		return w, fmt.Errorf("add a webhook: %w", session.WriteError(err))
	}
	return w, nil
}

// insertWebhook inserts a webhook that begins behind the newest event.
func insertWebhook(ctx context.Context, e *edit, w webhook.Webhook, secret, principal string) (id uint64, err error) {
	var newest uint64
	if err := e.GetContext(ctx, &newest, "SELECT COALESCE(MAX(id), 0) FROM zone_event"); err != nil {
		return 0, err
	}
	types, zones := make([]string, len(w.Types)), make([]string, len(w.Zones))
	for i, t := range w.Types {
		types[i] = string(t)
	}
	for i, zone := range w.Zones {
		zones[i] = strconv.FormatInt(zone, 10)
	}
	result, err := e.ExecContext(ctx, `
INSERT INTO webhook (url, types, zones, description, secret, created_at, created_by, position)
VALUES (?, ?, ?, ?, ?, UTC_TIMESTAMP(6), LEFT(?, 128), ?)`,
		w.URL, strings.Join(types, ","), strings.Join(zones, ","), w.Description, secret, principal, newest)
	if err != nil {
		return 0, err
	}
	last, err := result.LastInsertId()
	if err != nil {
		return 0, err
	}
	return uint64(last), e.audited(ctx, auditInsert, webhookRows(uint64(last)), func() error { return nil }) // it is there
}

// RemoveWebhook implements webhook.Store.
func (s *Tables) RemoveWebhook(ctx context.Context, id uint64, principal string) error {
	err := s.edit(ctx, principal, func(e *edit) error {
		n, err := e.remove(ctx, webhookRows(id))
		if err == nil && n == 0 {
			err = service.ErrNotFound
		}
		if err != nil {
			return err
		}
		_, err = e.ExecContext(ctx, "DELETE FROM webhook_delivery WHERE webhook_id = ?", id)
		return err
	})
	if err != nil {
		return fmt.Errorf("remove webhook %d: %w", id, session.WriteError(err))
	}
	return nil
}

// Resend implements webhook.Store.
func (s *Tables) Resend(ctx context.Context, id, eventID uint64, principal string) (n int, err error) {
	err = s.edit(ctx, principal, func(e *edit) error {
		// The webhook is locked before its deliveries, as the runner locks them, so that the two do not deadlock.
		var locked uint64
		err := e.GetContext(ctx, &locked, "SELECT id FROM webhook WHERE id = ? FOR UPDATE", id)
		if errors.Is(err, sql.ErrNoRows) {
			return service.ErrNotFound
		}
		if err != nil {
			return err
		}
		if n, err = revive(ctx, e, id, eventID); err != nil || n == 0 {
			return err
		}
		return e.audited(ctx, auditUpdate, webhookRows(id), func() error {
			_, err := e.ExecContext(ctx, "UPDATE webhook SET resent_at = UTC_TIMESTAMP(6) WHERE id = ?", id)
			return err
		})
	})
	if err != nil {
		return 0, fmt.Errorf("send the dead deliveries of webhook %d again: %w", id, session.WriteError(err))
	}
	return n, nil
}

// revive makes dead deliveries of a webhook due now, and returns how many.
func revive(ctx context.Context, e *edit, id, eventID uint64) (int, error) {
	result, err := e.ExecContext(ctx, `
UPDATE webhook_delivery
   SET tries = 0,
       next_at = UTC_TIMESTAMP(6)
 WHERE webhook_id = ?
   AND next_at IS NULL
   AND (event_id = ? OR ? = 0)`, id, eventID, eventID)
	if err != nil {
		return 0, err
	}
	n, err := result.RowsAffected()
	return int(n), err
}
