// Package totals counts the attempts of zones and buckets by hour, day and month, so that the numbers outlive the txns.
// It answers with them, and has the tasks that keep them. It must not know how a check is decided.
package totals

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/jmoiron/sqlx"

	"velocityd/db/session"
	"velocityd/service"
)

// mostLive is how long an interval may be whose attempts are counted for an answer.
const mostLive = time.Hour

// IDs returns a range of ids that holds all txns from since to until. A zero until is no bound.
type IDs func(ctx context.Context, since, until time.Time) (low, high uint64, err error)

// Store answers with the totals of one database.
type Store struct {
	pool *session.Pool
	ids  IDs
}

var _ service.TotalsStore = (*Store)(nil)

// New returns a book. Without ids it looks at all txns of the partitions of a time.
func New(pool *session.Pool, ids IDs) *Store { return &Store{pool: pool, ids: ids} }

// progress is how far the roll-up is, and the engine's clock.
type progress struct {
	Now        time.Time `db:"read_at"`
	RolledUpTo time.Time `db:"rolled_up_to"`
	FinalTo    time.Time `db:"final_to"`
	Part       int       `db:"part"`
	Pass       int64     `db:"pass"` // counts the writes
}

const selectProgress = `
SELECT UTC_TIMESTAMP(6) AS read_at, rolled_up_to, final_to, part, pass
  FROM totals_progress
 WHERE id = 1`

// readProgress returns the progress. Before the first roll-up it is the one that this will begin with: all hours since
// the oldest txn are to be counted.
func readProgress(ctx context.Context, from session.Reader) (p progress, exists bool, err error) {
	err = from.GetContext(ctx, &p, selectProgress)
	if err == nil || !errors.Is(err, sql.ErrNoRows) {
		return p, err == nil, err
	}
	if err := from.GetContext(ctx, &p.Now, "SELECT UTC_TIMESTAMP(6) FROM schema_migrations"); err != nil {
		return p, false, err
	}
	oldest := p.Now.Add(-service.TotalsLag)
	err = from.GetContext(ctx, &oldest, "SELECT created_at FROM zone_txn ORDER BY id LIMIT 1")
	if err != nil && !errors.Is(err, sql.ErrNoRows) {
		return p, false, err
	}
	p.RolledUpTo = service.SpanHour.Begin(oldest)
	p.FinalTo = p.RolledUpTo
	return p, false, nil
}

// move writes p, unless another one has written since p was read: then the error is errOvertaken. It locks the row
// until the transaction ends, so one roll-up writes at a time.
func (p *progress) move(ctx context.Context, tx *sqlx.Tx) error {
	done, err := tx.ExecContext(ctx, `
UPDATE totals_progress
   SET rolled_up_to = ?, final_to = ?, part = ?, pass = pass + 1
 WHERE id = 1
   AND pass = ?`, p.RolledUpTo, p.FinalTo, p.Part, p.Pass)
	if err != nil {
		return err
	}
	n, err := done.RowsAffected()
	if err == nil && n == 0 {
		return errOvertaken
	}
	p.Pass++
	return err
}

// live returns when attempts begin that are counted for an answer, and end. They are none if no roll-up ran for
// long.
func (p progress) live() (from time.Time, to service.CountedTo) {
	to = service.CountedTo{RolledUpTo: service.At(p.RolledUpTo), CountedTo: service.At(p.Now)}
	if p.Now.Sub(p.RolledUpTo) > mostLive {
		to.CountedTo.Time = p.RolledUpTo
	}
	return p.RolledUpTo, to
}

// steadily has ask read everything that an answer is made of, again if a roll-up has written in between.
func (s *Store) steadily(ctx context.Context, ask func(p progress) error) error {
	const tries = 10
	before, _, err := readProgress(ctx, s.pool)
	for range tries {
		if err != nil {
			return session.LookupError(err)
		}
		switch err := ask(before); {
		case errors.Is(err, service.ErrInvalid):
			return err
		case err != nil:
			return session.LookupError(err)
		}
		var after progress
		if after, _, err = readProgress(ctx, s.pool); err != nil {
			continue
		}
		if after.RolledUpTo.Equal(before.RolledUpTo) && after.FinalTo.Equal(before.FinalTo) {
			return nil
		}
		before = after
	}
	return fmt.Errorf("%w: attempts were rolled up %d times while totals were read", service.ErrBusy, tries)
}

// within writes the condition on ids of txns from since to until, and its arguments.
func (ids IDs) within(ctx context.Context, since, until time.Time) (condition string, args []any, err error) {
	args = []any{since}
	condition = "created_at >= ?"
	if !until.IsZero() {
		condition, args = condition+" AND created_at < ?", append(args, until)
	}
	if ids == nil {
		return condition, args, nil
	}
	low, high, err := ids(ctx, since, until)
	return condition + " AND id BETWEEN ? AND ?", append(args, low, high), err
}
