package outbox

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"time"

	"github.com/jmoiron/sqlx"

	"velocityd/db/retention"
	"velocityd/db/session"
	"velocityd/service"
	"velocityd/service/event"
	"velocityd/service/webhook"
)

const (
	// sendMargin is how long before the end of its budget a run begins the last try.
	sendMargin = 5 * time.Second
	// overtime is for how long after that try a run still begins rounds of webhooks whose last try succeeded, as long as
	// another webhook keeps it waiting.
	overtime = 20 * time.Second
	// lookPause is the time between two looks at the events while a round is under way.
	lookPause = time.Second
)

// longestError is how many characters of an error are kept.
const longestError = 255

// Deliveries is the task that sends events to webhooks, by one runner among all.
func Deliveries(send webhook.Send) retention.Task {
	return retention.Task{Name: "webhooks", Run: deliverer(send).run, IsWanted: isDue}
}

type deliverer webhook.Send

// isDue says whether a delivery is due, or there is an event behind the position of a webhook.
func isDue(ctx context.Context, from session.Reader) (bool, error) {
	var due []int
	if err := from.SelectContext(ctx, &due, `
SELECT 1
  FROM webhook_delivery
 WHERE next_at <= UTC_TIMESTAMP(6)
 LIMIT 1`); err != nil || len(due) > 0 {
		return len(due) > 0, err
	}
	var position *uint64
	if err := from.GetContext(ctx, &position, "SELECT MIN(position) FROM webhook"); err != nil || position == nil {
		return false, err
	}
	var next []struct {
		At  time.Time `db:"created_at"`
		Now time.Time `db:"read_at"`
	}
	err := from.SelectContext(ctx, &next, `
SELECT created_at, UTC_TIMESTAMP(6) AS read_at
  FROM zone_event
 WHERE id > ?
 ORDER BY id
 LIMIT 1`, *position)
	return len(next) > 0 && !next[0].At.After(next[0].Now.Add(-service.HistoryLag)), err
}

// run sends, and then records, in rounds; a round whose record is lost is sent again. Each webhook has rounds of its
// own, one at a time, which are recorded when they end. So a receiver that hangs delays its own events alone.
func (d deliverer) run(ctx context.Context, on *sqlx.Conn, _ string) (all retention.Result, err error) {
	until, isLate := time.Now().Add(retention.Budget-sendMargin), false
	sent, busy := make(chan *round), map[uint64]bool{}
	mayBegin := func(w webhook.Webhook) bool { return !busy[w.ID] && (!isLate || w.State.Error == "") }
	look := time.NewTicker(lookPause)
	defer look.Stop()
	for isNews := true; ; {
		if !isLate && time.Now().After(until) {
			until, isLate = until.Add(overtime), true
		}
		if isNews && err == nil && time.Now().Before(until) && (!isLate || len(busy) > 0) {
			var rounds []*round
			rounds, err = readRounds(ctx, on, mayBegin)
			all.Backlog = false
			for _, r := range rounds {
				busy[r.Webhook.ID] = true
				go r.carry(ctx, webhook.Send(d), until, sent)
			}
		}
		if len(busy) == 0 {
			return all, err
		}
		select {
		case r := <-sent:
			delete(busy, r.Webhook.ID)
			if fault := r.record(ctx, on); fault != nil { // the others are recorded, and no more begin
				err = cmp.Or(err, fault)
				continue
			}
			isNews = r.hasMore
			all.Removed, all.Backlog = all.Removed+int64(r.sent()), all.Backlog || r.hasMore
		case <-look.C:
			isNews = true
		}
	}
}

// carry sends the deliveries that are due until then, and hands itself over.
func (r *round) carry(ctx context.Context, send webhook.Send, until time.Time, sent chan<- *round) {
	r.results = r.Deliver(ctx, send, until)
	sent <- r
}

// round is a round of one webhook, with its results.
type round struct {
	webhook.Round
	position uint64
	hasMore  bool // events, for another round at once
	results  []webhook.Result
}

// readRounds returns a round for each webhook that may begin one and has anything to do.
func readRounds(ctx context.Context, on *sqlx.Conn, mayBegin func(webhook.Webhook) bool) (rounds []*round, err error) {
	var hooks []webhookRow
	if err := on.SelectContext(ctx, &hooks, selectWebhooks); err != nil {
		return nil, err
	}
	for _, hook := range hooks {
		w, err := hook.webhook()
		if err != nil {
			return nil, err
		}
		if !mayBegin(w) {
			continue
		}
		r := &round{Round: webhook.Round{Webhook: w, Secret: hook.Secret, Now: hook.Now}, position: w.State.Position}
		if err := r.read(ctx, on); err != nil {
			return nil, err
		}
		if r.position != w.State.Position || r.isDue() {
			rounds = append(rounds, r)
		}
	}
	return rounds, nil
}

// read reads the deliveries that wait, and the next events if there are not too many of those.
func (r *round) read(ctx context.Context, on *sqlx.Conn) error {
	var rows []deliveryRow
	if err := on.SelectContext(ctx, &rows, selectDeliveries+`
   AND next_at IS NOT NULL
 ORDER BY event_id`, r.Webhook.ID); err != nil {
		return err
	}
	var err error
	if r.Waiting, r.Kept, err = withEvents(ctx, on, rows); err != nil || len(rows) >= webhook.MostWaiting {
		return err
	}
	query := event.Query{
		Types: r.Webhook.Types, Zones: r.Webhook.Zones, Order: service.OldestFirst, Cursor: r.position,
		Limit: webhook.MostWaiting,
	}
	statement, args, err := statementOf(query)
	if err != nil {
		return err
	}
	var next []row
	if err := on.SelectContext(ctx, &next, statement, args...); err != nil {
		return err
	}
	page := pageOf(query, next)
	r.New, r.position, r.hasMore = page.Events, page.Last, page.Next != 0
	return nil
}

// isDue reports whether a delivery may be tried now.
func (r *round) isDue() bool {
	for _, d := range r.Waiting {
		if !d.NextAt.After(r.Now) {
			return true
		}
	}
	return false
}

func (r *round) sent() (n int) {
	for _, result := range r.results {
		if result.Sent {
			n++
		}
	}
	return n
}

// record writes the results of a round in one transaction. It makes no delivery of a webhook that was removed
// meanwhile.
func (r *round) record(ctx context.Context, on *sqlx.Conn) error {
	tx, err := on.BeginTxx(ctx, nil)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }() // which does nothing after the commit
	// The webhook is locked before its deliveries, as by a removal, so that the two do not deadlock.
	var id uint64
	err = tx.GetContext(ctx, &id, "SELECT id FROM webhook WHERE id = ? FOR UPDATE", r.Webhook.ID)
	if errors.Is(err, sql.ErrNoRows) {
		return nil
	}
	if err != nil {
		return err
	}
	for _, result := range r.results {
		if err := r.recordOne(ctx, tx, result); err != nil {
			return err
		}
	}
	why := ""
	for _, result := range r.results {
		if !result.Sent && result.Error != "" && result.Tries > 0 {
			why = result.Error
		}
	}
	if _, err := tx.ExecContext(ctx, `
UPDATE webhook
   SET position = ?,
       succeeded_at = IF(?, UTC_TIMESTAMP(6), succeeded_at),
       failed_at = IF(? <> '', UTC_TIMESTAMP(6), failed_at),
       error = ?
 WHERE id = ?`, r.position, r.sent() > 0, why, service.Shortened(why, longestError), r.Webhook.ID); err != nil {
		return err
	}
	return tx.Commit()
}

func (r *round) recordOne(ctx context.Context, tx *sqlx.Tx, result webhook.Result) (err error) {
	next := sql.Null[time.Time]{V: result.NextAt.Time, Valid: !result.NextAt.IsZero()}
	switch {
	case result.Sent && result.WasWaiting:
		_, err = tx.ExecContext(ctx, "DELETE FROM webhook_delivery WHERE webhook_id = ? AND event_id = ?", r.Webhook.ID,
			result.EventID)
	case result.Sent:
	case result.WasWaiting:
		_, err = tx.ExecContext(ctx, `
UPDATE webhook_delivery
   SET tries = ?,
       next_at = ?,
       error = ?
 WHERE webhook_id = ?
   AND event_id = ?`, result.Tries, next, service.Shortened(result.Error, longestError), r.Webhook.ID, result.EventID)
	default:
		_, err = tx.ExecContext(ctx, `
INSERT INTO webhook_delivery (webhook_id, event_id, tries, next_at, error)
SELECT id, ?, ?, ?, ?
  FROM webhook
 WHERE id = ?
    ON DUPLICATE KEY UPDATE tries = VALUES(tries), next_at = VALUES(next_at), error = VALUES(error)`,
			result.EventID, result.Tries, next, service.Shortened(result.Error, longestError), r.Webhook.ID)
	}
	return err
}
