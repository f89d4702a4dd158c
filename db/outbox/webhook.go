package outbox

import (
	"context"
	"database/sql"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/jmoiron/sqlx"

	"velocityd/db/session"
	"velocityd/service"
	"velocityd/service/event"
	"velocityd/service/webhook"
)

var _ webhook.Store = (*Outbox)(nil)

// webhookRow is a row of webhook.
type webhookRow struct {
	ID          uint64              `db:"id"`
	URL         string              `db:"url"`
	Types       string              `db:"types"`
	Zones       string              `db:"zones"`
	Description string              `db:"description"`
	Secret      string              `db:"secret"`
	CreatedAt   time.Time           `db:"created_at"`
	CreatedBy   string              `db:"created_by"`
	Position    uint64              `db:"position"`
	SucceededAt sql.Null[time.Time] `db:"succeeded_at"`
	FailedAt    sql.Null[time.Time] `db:"failed_at"`
	Error       string              `db:"error"`
	Now         time.Time           `db:"now"`
}

const selectWebhooks = `
SELECT id, url, types, zones, description, secret, created_at, created_by, position, succeeded_at, failed_at, error,
       UTC_TIMESTAMP(6) AS now
  FROM webhook
 ORDER BY id`

func (r webhookRow) webhook() (webhook.Webhook, error) {
	w := webhook.Webhook{
		ID: r.ID, URL: r.URL, Description: r.Description, CreatedAt: r.CreatedAt, CreatedBy: r.CreatedBy,
		State: webhook.State{Position: r.Position, SucceededAt: r.SucceededAt.V, FailedAt: r.FailedAt.V, Error: r.Error},
	}
	for text := range listed(r.Types) {
		w.Types = append(w.Types, event.Type(text))
	}
	for text := range listed(r.Zones) {
		zone, err := strconv.ParseInt(text, 10, 64)
		if err != nil {
			return w, fmt.Errorf("zones of webhook %d: %w", r.ID, err)
		}
		w.Zones = append(w.Zones, zone)
	}
	return w, nil
}

// listed yields the elements of a list such as 1,2,7.
func listed(text string) func(func(string) bool) {
	if text == "" {
		return func(func(string) bool) {}
	}
	return strings.SplitSeq(text, ",")
}

// AddWebhook implements webhook.Store. The account needs the right to insert into webhook.
func (o *Outbox) AddWebhook(ctx context.Context, w webhook.Webhook, secret, principal string) (webhook.Webhook, error) {
	if err := w.Validate(); err != nil {
		return w, err
	}
	err := o.pool.InTx(ctx, nil, func(tx *sqlx.Tx) error {
		var version int64 // whose row keeps others from adding at the same time
		if err := tx.GetContext(ctx, &version, "SELECT version FROM schema_migrations FOR UPDATE"); err != nil {
			return err
		}
		var are int
		if err := tx.GetContext(ctx, &are, "SELECT COUNT(*) FROM webhook"); err != nil {
			return err
		}
		if are >= webhook.MaxWebhooks {
			return fmt.Errorf("%w: there are %d webhooks, which is the most; remove one first", service.ErrConflict, are)
		}
		id, err := insertWebhook(ctx, tx, w, secret, principal)
		if w.ID = id; err != nil {
			return err
		}
		return tx.Commit()
	})
	if err != nil {
		return w, fmt.Errorf("add a webhook: %w", session.WriteError(err))
	}
	all, err := o.Webhooks(ctx)
	if at := slices.IndexFunc(all, func(one webhook.Webhook) bool { return one.ID == w.ID }); err == nil && at >= 0 {
		return all[at], nil
	}
	return w, err
}

// insertWebhook inserts a webhook that begins behind the newest event.
func insertWebhook(ctx context.Context, tx *sqlx.Tx, w webhook.Webhook, secret, principal string) (id uint64, err error) {
	var newest uint64
	if err := tx.GetContext(ctx, &newest, "SELECT COALESCE(MAX(id), 0) FROM zone_event"); err != nil {
		return 0, err
	}
	types, zones := make([]string, len(w.Types)), make([]string, len(w.Zones))
	for i, t := range w.Types {
		types[i] = string(t)
	}
	for i, zone := range w.Zones {
		zones[i] = strconv.FormatInt(zone, 10)
	}
	result, err := tx.ExecContext(ctx, `
INSERT INTO webhook (url, types, zones, description, secret, created_at, created_by, position)
VALUES (?, ?, ?, ?, ?, UTC_TIMESTAMP(6), LEFT(?, 128), ?)`,
		w.URL, strings.Join(types, ","), strings.Join(zones, ","), w.Description, secret, principal, newest)
	if err != nil {
		return 0, err
	}
	last, err := result.LastInsertId()
	return uint64(last), err
}

// Webhooks implements webhook.Store.
func (o *Outbox) Webhooks(ctx context.Context) (list []webhook.Webhook, err error) {
	err = o.pool.On(ctx, func(conn *sqlx.Conn) error {
		var rows []webhookRow
		if err := conn.SelectContext(ctx, &rows, selectWebhooks); err != nil {
			return err
		}
		var counts []struct {
			ID     uint64 `db:"webhook_id"`
			IsDead bool   `db:"is_dead"`
			Number int    `db:"number"`
		}
		if err := conn.SelectContext(ctx, &counts, `
SELECT webhook_id, next_at IS NULL AS is_dead, COUNT(*) AS number
  FROM webhook_delivery
 GROUP BY webhook_id, next_at IS NULL`); err != nil {
			return err
		}
		for _, row := range rows {
			w, err := row.webhook()
			if err != nil {
				return err
			}
			for _, c := range counts {
				switch {
				case c.ID != w.ID:
				case c.IsDead:
					w.State.Dead = c.Number
				default:
					w.State.Waiting = c.Number
				}
			}
			list = append(list, w)
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("list webhooks: %w", session.LookupError(err))
	}
	return list, nil
}

// RemoveWebhook implements webhook.Store.
func (o *Outbox) RemoveWebhook(ctx context.Context, id uint64) error {
	err := o.pool.InTx(ctx, nil, func(tx *sqlx.Tx) error {
		result, err := tx.ExecContext(ctx, "DELETE FROM webhook WHERE id = ?", id)
		if err != nil {
			return err
		}
		if n, err := result.RowsAffected(); err != nil || n == 0 {
			return orNotFound(err)
		}
		if _, err := tx.ExecContext(ctx, "DELETE FROM webhook_delivery WHERE webhook_id = ?", id); err != nil {
			return err
		}
		return tx.Commit()
	})
	if err != nil {
		return fmt.Errorf("remove webhook %d: %w", id, session.WriteError(err))
	}
	return nil
}

func orNotFound(err error) error {
	if err == nil {
		return service.ErrNotFound
	}
	return err
}

// deliveryRow is a row of webhook_delivery.
type deliveryRow struct {
	EventID uint64              `db:"event_id"`
	Tries   int                 `db:"tries"`
	NextAt  sql.Null[time.Time] `db:"next_at"`
	Error   string              `db:"error"`
}

// delivery returns the delivery of an event, which is zero if it is no longer kept.
func (r deliveryRow) delivery(of event.Event) webhook.Delivery {
	return webhook.Delivery{EventID: r.EventID, Type: of.Type, Bucket: of.Bucket, Tries: r.Tries, NextAt: r.NextAt.V, Error: r.Error}
}

const selectDeliveries = `
SELECT event_id, tries, next_at, error
  FROM webhook_delivery
 WHERE webhook_id = ?`

// Deliveries implements webhook.Store.
func (o *Outbox) Deliveries(ctx context.Context, id, after uint64) (list []webhook.Delivery, err error) {
	err = o.pool.On(ctx, func(conn *sqlx.Conn) error {
		if err := exists(ctx, conn, id); err != nil {
			return err
		}
		var rows []deliveryRow
		if err := conn.SelectContext(ctx, &rows, selectDeliveries+`
   AND event_id > ?
 ORDER BY event_id
 LIMIT `+strconv.Itoa(webhook.MaxDeliveries), id, after); err != nil {
			return err
		}
		list, _, err = withEvents(ctx, conn, rows)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("list the deliveries of webhook %d: %w", id, session.LookupError(err))
	}
	return list, nil
}

// exists returns service.ErrNotFound if there is no such webhook.
func exists(ctx context.Context, from session.Reader, id uint64) error {
	var found []int
	if err := from.SelectContext(ctx, &found, "SELECT 1 FROM webhook WHERE id = ?", id); err != nil || len(found) > 0 {
		return err
	}
	return service.ErrNotFound
}

// withEvents returns deliveries with what their events say, and the events that are still kept.
func withEvents(ctx context.Context, from session.Reader, rows []deliveryRow) ([]webhook.Delivery, map[uint64]event.Event, error) {
	list, kept := make([]webhook.Delivery, len(rows)), map[uint64]event.Event{}
	if len(rows) == 0 {
		return list, kept, nil
	}
	ids := make([]uint64, len(rows))
	for i, r := range rows {
		ids[i] = r.EventID
	}
	query, args, err := sqlx.In(selectEvents+"\n WHERE id IN (?)", ids)
	if err != nil {
		return nil, nil, err
	}
	var events []row
	if err := from.SelectContext(ctx, &events, query, args...); err != nil {
		return nil, nil, err
	}
	for _, r := range events {
		kept[r.ID] = r.event()
	}
	for i, r := range rows {
		list[i] = r.delivery(kept[r.EventID])
	}
	return list, kept, nil
}

// Resend implements webhook.Store.
func (o *Outbox) Resend(ctx context.Context, id, eventID uint64) (n int, err error) {
	err = o.pool.InTx(ctx, nil, func(tx *sqlx.Tx) error {
		if err := exists(ctx, tx, id); err != nil {
			return err
		}
		result, err := tx.ExecContext(ctx, `
UPDATE webhook_delivery
   SET tries = 0,
       next_at = UTC_TIMESTAMP(6)
 WHERE webhook_id = ?
   AND next_at IS NULL
   AND (event_id = ? OR ? = 0)`, id, eventID, eventID)
		if err != nil {
			return err
		}
		changed, err := result.RowsAffected()
		if n = int(changed); err != nil {
			return err
		}
		return tx.Commit()
	})
	if err != nil {
		return 0, fmt.Errorf("send the dead deliveries of webhook %d again: %w", id, session.WriteError(err))
	}
	return n, nil
}
