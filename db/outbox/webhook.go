package outbox

import (
	"context"
	"database/sql"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/jmoiron/sqlx"

	"velocityd/db/session"
	"velocityd/service"
	"velocityd/service/event"
	"velocityd/service/webhook"
)

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
	Now         time.Time           `db:"read_at"`
}

const selectWebhooks = `
SELECT id, url, types, zones, description, secret, created_at, created_by, position, succeeded_at, failed_at, error,
       UTC_TIMESTAMP(6) AS read_at
  FROM webhook
 ORDER BY id`

func (r webhookRow) webhook() (webhook.Webhook, error) {
	w := webhook.Webhook{
		ID: r.ID, URL: r.URL, Description: r.Description, CreatedAt: service.At(r.CreatedAt), CreatedBy: r.CreatedBy,
		State: webhook.State{
			Position: r.Position, SucceededAt: service.At(r.SucceededAt.V),
			FailedAt: service.At(r.FailedAt.V), Error: r.Error,
		},
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

// Webhooks implements webhook.Store.
func (o *Outbox) Webhooks(ctx context.Context) (list []webhook.Webhook, err error) {
	var rows []webhookRow
	var counts []counted
	if err = o.pool.SelectContext(ctx, &rows, selectWebhooks); err == nil {
		err = o.pool.SelectContext(ctx, &counts, `
SELECT webhook_id, next_at IS NULL AS is_dead, COUNT(*) AS number, MIN(event_id) AS oldest
  FROM webhook_delivery
 GROUP BY webhook_id, next_at IS NULL`)
	}
	for i := 0; err == nil && i < len(rows); i++ {
		var w webhook.Webhook
		if w, err = rows[i].webhook(); err == nil {
			err = rows[i].measure(ctx, o.pool, counts, &w.State)
		}
		list = append(list, w)
	}
	if err != nil {
		return nil, fmt.Errorf("list webhooks: %w", session.LookupError(err))
	}
	return list, nil
}

// counted are deliveries of one webhook.
type counted struct {
	WebhookID uint64 `db:"webhook_id"`
	IsDead    bool   `db:"is_dead"`
	Number    int    `db:"number"`
	Oldest    uint64 `db:"oldest"`
}

// measure tells a webhook's state how many deliveries there are, and how far it lags behind.
func (r webhookRow) measure(ctx context.Context, from session.Reader, counts []counted, s *webhook.State) error {
	oldest := uint64(0)
	for _, c := range counts {
		switch {
		case c.WebhookID != r.ID:
		case c.IsDead:
			s.Dead = c.Number
		default:
			s.Waiting, oldest = c.Number, c.Oldest
		}
	}
	var written []time.Time
	err := from.SelectContext(ctx, &written, `
SELECT created_at
  FROM zone_event
 WHERE id = ?
    OR id > ?
 ORDER BY id
 LIMIT 1`, oldest, r.Position)
	for _, at := range written {
		s.Lag.Duration = max(0, r.Now.Sub(at))
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
	return webhook.Delivery{
		EventID: r.EventID, Type: of.Type, Bucket: of.Bucket, Tries: r.Tries,
		NextAt: service.At(r.NextAt.V), Error: r.Error,
	}
}

const selectDeliveries = `
SELECT event_id, tries, next_at, error
  FROM webhook_delivery
 WHERE webhook_id = ?`

// Deliveries implements webhook.Store.
func (o *Outbox) Deliveries(ctx context.Context, id, after uint64) (list []webhook.Delivery, err error) {
	var rows []deliveryRow
	if err = exists(ctx, o.pool, id); err == nil {
		err = o.pool.SelectContext(ctx, &rows, selectDeliveries+`
   AND event_id > ?
 ORDER BY event_id
 LIMIT `+strconv.Itoa(webhook.MaxDeliveries), id, after)
	}
	if err == nil {
		list, _, err = withEvents(ctx, o.pool, rows)
	}
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

// withEvents returns deliveries with the data of their events, as far as these are still kept.
func withEvents(
	ctx context.Context, from session.Reader, rows []deliveryRow,
) ([]webhook.Delivery, map[uint64]event.Event, error) {
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
