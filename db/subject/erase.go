package subject

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/jmoiron/sqlx"

	"velocityd/db/session"
	"velocityd/db/totals"
	"velocityd/internal/engine"
	"velocityd/service"
)

// Erased is the text in the place of a reason that was written about an erased key.
const Erased = "erased"

// Erasure is a bucket whose key is erased.
type Erasure struct {
	ZoneID int64 `json:"zone_id"`
	// Pseudonym is the key of the bucket from now on. It is random, so the key cannot be found from it.
	Pseudonym string `json:"pseudonym"`
	// Txns, Overrides and Mentions are how many rows this run has changed. Mentions are answers to attempt ids and rows
	// of zone_audit.
	Txns      int64 `json:"txns"`
	Overrides int64 `json:"overrides"`
	Mentions  int64 `json:"mentions"`

	key string
	at  time.Time // txns of the key up to it are erased; later ones are those of a person that came back
}

// Order is the wish to erase a key.
type Order struct {
	Targets []Target
	// Principal is the name of the eraser, and Reason its reason: both go to zone_audit. The reason must not name the
	// person.
	Principal, Reason string
	// Progress is called after each batch with the sum of the rows that have been changed, unless it is nil.
	Progress func(rows int64)
}

// Erase gives the rows of a key random pseudonyms, one for each bucket. The txns that count in the bucket's window, its
// lockout and its totals go together in one transaction, under the lock of the bucket, so no check sees a part of them.
// Older rows follow in small batches. The next attempt under the key finds a bucket that was never used.
//
// It may be called again: a run that broke off is finished with its pseudonyms, and without rows there is nothing to
// do. It needs the rights of the owner of the schema. The error wraps service.ErrForbidden if the account has fewer,
// service.ErrInvalid for a bad reason and on Vitess, which cannot change the key by which it finds a row, and
// service.ErrBusy if the engine is away. The erasures that have begun are returned beside an error.
func (r *Rows) Erase(ctx context.Context, order Order) (done []Erasure, err error) {
	if err := service.ValidateRelease(order.Principal, order.Reason); err != nil {
		return nil, err
	}
	if r.database.Engine() == engine.Vitess {
		return nil, fmt.Errorf(
			"%w: Vitess cannot change the key by which it finds a row: delete the rows there, once they are exported",
			service.ErrInvalid)
	}
	e := erasing{Rows: r, Order: order, begun: make([]*Erasure, len(order.Targets))}
	err = e.run(ctx)
	for _, one := range e.begun {
		if one != nil {
			done = append(done, *one)
		}
	}
	return done, err
}

// erasing is a call of Erase.
type erasing struct {
	*Rows
	Order
	begun   []*Erasure // of the target in its place; nil: no row has been found
	changed int64
}

func (e *erasing) run(ctx context.Context) error {
	if err := e.resume(ctx); err != nil {
		return err
	}
	for i, t := range e.Targets {
		exists, err := e.exists(ctx, t)
		if err == nil && exists {
			err = e.begin(ctx, i)
		}
		if err == nil && e.begun[i] != nil {
			err = errors.Join(e.moveOverride(ctx, i), e.moveTxns(ctx, i))
		}
		if err != nil {
			return fmt.Errorf("erase a bucket of zone %d: %w", t.ZoneID, err)
		}
	}
	for _, table := range jsonTables() {
		if err := e.walk(ctx, table, e.Targets, func(m mention) error { return e.rewrite(ctx, table, m) }); err != nil {
			return err
		}
	}
	for i := range e.Targets {
		if e.begun[i] == nil {
			continue
		}
		if err := e.end(ctx, i); err != nil {
			return fmt.Errorf("end the erasure of a bucket of zone %d: %w", e.Targets[i].ZoneID, err)
		}
	}
	return nil
}

// resume takes up the erasures that broke off.
func (e *erasing) resume(ctx context.Context) error {
	var rows []struct {
		ZoneID    int64     `db:"zone_id"`
		Key       string    `db:"bucket_key"`
		Pseudonym string    `db:"pseudonym"`
		At        time.Time `db:"erased_at"`
	}
	if err := e.pool.SelectContext(ctx, &rows, `
SELECT zone_id, bucket_key, pseudonym, erased_at
  FROM subject_erasure`); err != nil {
		return fmt.Errorf("look for erasures that broke off: %w", session.LookupError(err))
	}
	for _, row := range rows {
		is := func(t Target) bool { return t.ZoneID == row.ZoneID && t.Key == row.Key }
		if i := slices.IndexFunc(e.Targets, is); i >= 0 {
			e.begun[i] = &Erasure{ZoneID: row.ZoneID, Pseudonym: row.Pseudonym, key: row.Key, at: row.At}
		}
	}
	return nil
}

// exists says that a bucket has a row in one of the tables with keys.
func (e *erasing) exists(ctx context.Context, t Target) (exists bool, err error) {
	for table, index := range keyed() {
		if err := e.pool.GetContext(ctx, &exists, `
SELECT COUNT(*) > 0
  FROM (SELECT 1
          FROM `+table+` FORCE INDEX (`+index+`)
         WHERE zone_id = ?
           AND bucket_key = ?
         LIMIT 1) AS one`, t.ZoneID, t.Key); err != nil || exists {
			return exists, session.LookupError(err)
		}
	}
	return false, nil
}

// begin changes, in one transaction, all that a check or a roll-up of totals may count or find of a bucket. It has no
// effect on an erasure that has begun.
func (e *erasing) begin(ctx context.Context, i int) error {
	if e.begun[i] != nil {
		return nil
	}
	t := e.Targets[i]
	var one Erasure
	err := e.again(ctx, func(ctx context.Context) error {
		one = Erasure{ZoneID: t.ZoneID, Pseudonym: service.NewErasedKey(t.Form), key: t.Key}
		return e.pool.On(ctx, func(conn *sqlx.Conn) error {
			return totals.Move(ctx, conn, t.Bucket, one.Pseudonym, func(tx *sqlx.Tx, since time.Time) error {
				return e.moveNow(ctx, tx, &one, since)
			})
		})
	})
	if err == nil {
		e.begun[i] = &one
		e.count(one.Txns)
	}
	return err
}

// moveNow is the transaction of begin. Txns since an instant are in hours whose totals are counted once more. Those
// that do not count in the window may be many, and move before the bucket is locked.
func (e *erasing) moveNow(ctx context.Context, tx *sqlx.Tx, one *Erasure, since time.Time) error {
	blocked := txnRange{counted: false, from: since, to: always()}
	if err := e.move(ctx, tx, one, blocked); err != nil {
		return err
	}
	if _, err := tx.ExecContext(ctx, `
INSERT INTO zone_bucket_lock (zone_id, bucket_key)
VALUES (?, ?)
ON DUPLICATE KEY UPDATE zone_id = VALUES(zone_id)`, one.ZoneID, one.key); err != nil { // it holds the lock now
		return err
	}
	var now struct {
		At     time.Time `db:"at"`
		Window int64     `db:"counting"`
	}
	if err := tx.GetContext(ctx, &now, `
SELECT UTC_TIMESTAMP(6) AS at,
       GREATEST(COALESCE(MAX(z.`+"`window`"+`), 0), COALESCE(MAX(o.`+"`window`"+`), 0)) AS counting
  FROM zone_master AS z
  LEFT JOIN zone_override AS o
    ON o.zone_id = z.id
 WHERE z.id = ?`, one.ZoneID); err != nil {
		return err
	}
	one.at = now.At
	counting := txnRange{counted: true, from: now.At.Add(-service.Seconds(now.Window)), to: always()}
	if counting.from.After(since) {
		counting.from = since
	}
	if err := errors.Join(e.move(ctx, tx, one, counting), e.move(ctx, tx, one, blocked)); err != nil {
		return err
	}
	return e.moveLock(ctx, tx, one)
}

// moveLock gives the lock row its pseudonym, and records that.
func (e *erasing) moveLock(ctx context.Context, tx *sqlx.Tx, one *Erasure) error {
	for _, statement := range []struct {
		text string
		args []any
	}{
		{`
UPDATE zone_bucket_lock
   SET bucket_key = ?
 WHERE zone_id = ?
   AND bucket_key = ?`, []any{one.Pseudonym, one.ZoneID, one.key}},
		{`
UPDATE zone_lockout
   SET bucket_key = ?
 WHERE zone_id = ?
   AND bucket_key = ?`, []any{one.Pseudonym, one.ZoneID, one.key}},
		{`
INSERT INTO subject_erasure (zone_id, bucket_key, pseudonym, erased_at)
VALUES (?, ?, ?, ?)`, []any{one.ZoneID, one.key, one.Pseudonym, one.at}},
		{
			`
INSERT INTO zone_audit (changed_at, changed_by, principal, subject, action, zone_id, state_after)
VALUES (?, SESSION_USER(), NULLIF(?, ''), 'bucket', 'erase', ?, JSON_OBJECT('bucket_key', ?, 'reason', ?))`,
			[]any{one.at, e.Principal, one.ZoneID, one.Pseudonym, e.Reason},
		},
	} {
		if _, err := tx.ExecContext(ctx, statement.text, statement.args...); err != nil {
			return err
		}
	}
	return nil
}

// txnRange is some txns of a bucket: those that count or do not, from an instant to another one.
type txnRange struct {
	counted  bool
	from, to time.Time
}

// always is later than any txn.
func always() time.Time { return time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC) }

// move gives all txns of a txnRange their pseudonym.
func (e *erasing) move(ctx context.Context, tx *sqlx.Tx, one *Erasure, s txnRange) (err error) {
	for more := true; more && err == nil; {
		s.to, more, err = one.moveBatch(ctx, tx, s, e.options.BatchRows)
	}
	return err
}

// statements carries out statements: a connection or a transaction.
type statements interface {
	session.Reader
	ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
}

// moveBatch gives the newest most txns of a txnRange their pseudonym, and returns where the next batch ends. It finds
// them without a lock, and changes them by their ids: a range of the index would lock a txn of the next bucket, too.
func (o *Erasure) moveBatch(
	ctx context.Context, on statements, s txnRange, most int,
) (to time.Time, more bool, err error) {
	var found []struct {
		ID uint64    `db:"id"`
		At time.Time `db:"created_at"`
	}
	if err := on.SelectContext(ctx, &found, `
SELECT id, created_at
  FROM zone_txn FORCE INDEX (zone_txn_window)
 WHERE zone_id = ?
   AND bucket_key = ?
   AND counted = ?
   AND created_at BETWEEN ? AND ?
 ORDER BY created_at DESC, id DESC
 LIMIT ?`, o.ZoneID, o.key, s.counted, s.from, s.to, most); err != nil || len(found) == 0 {
		return s.to, false, err
	}
	first, last := found[len(found)-1].At, found[0].At
	args := []any{o.Pseudonym}
	for _, t := range found {
		args = append(args, t.ID)
	}
	result, err := on.ExecContext(ctx, `
UPDATE zone_txn FORCE INDEX (PRIMARY)
   SET bucket_key = ?
 WHERE id IN (`+session.Placeholders(len(found))+`)
   AND created_at BETWEEN ? AND ?
   AND zone_id = ?
   AND bucket_key = ?`, append(args, first, last, o.ZoneID, o.key)...)
	if err != nil {
		return s.to, false, err
	}
	n, err := result.RowsAffected()
	o.Txns += n
	return first, true, err
}
