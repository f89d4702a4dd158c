package history

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"velocityd/db/session"
	"velocityd/service/refresh"
)

const (
	// slack is by how much the instant of a txn and a mark may contradict each other: txns are committed a little after
	// their instant, and clocks are corrected.
	slack = 2 * time.Minute
	// marksKept is for how long a Reader uses the marks that it has read. Older ones bound newer txns less tightly.
	marksKept = 10 * time.Minute
	// marksPause is for how long a Reader does without marks after it could not read them.
	marksPause = 10 * time.Second
	// marksTimeout bounds one reading, which others may wait for.
	marksTimeout = 10 * time.Second
)

// mark says that ID was the highest id at At.
type mark struct {
	ID uint64    `db:"txn_id"`
	At time.Time `db:"marked_at"`
}

// times is an interval of created_at with both ends. The zero value holds all times.
type times struct{ since, until time.Time }

// eternity is the end of times that have none.
func eternity() time.Time { return time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC) }

// isAll says that t excludes no txn.
func (t times) isAll() bool { return t == times{} }

// and returns the times that are in both intervals.
func (t times) and(other times) times {
	if other.since.After(t.since) {
		t.since = other.since
	}
	if !other.until.IsZero() && (t.until.IsZero() || other.until.Before(t.until)) {
		t.until = other.until
	}
	return t
}

// bounds returns both ends as the engine can compare them.
func (t times) bounds() (since, until time.Time) {
	return time.UnixMicro(max(t.since.UnixMicro(), 0)).UTC(), cmp.Or(t.until, eternity())
}

// timesOf returns when the txns with ids from first to last were decided, by one mark for each day. A look-up that does
// not find a txn there looks everywhere: without marks, and with wrong ones, all look-ups find the same, only later.
func (r *Reader) timesOf(ctx context.Context, first, last uint64) (t times) {
	isGood := func(reading *refresh.Reading[[]mark]) bool {
		kept := marksKept
		if reading.Err != nil {
			kept = marksPause
		}
		return time.Since(reading.Ended) < kept
	}
	if _, err := r.fresh.Get(ctx, isGood); err != nil {
		return times{}
	}
	marks := *r.marks.Load()
	byID := func(m mark, id uint64) int { return cmp.Compare(m.ID, id) }
	if below, _ := slices.BinarySearchFunc(marks, first, byID); below > 0 {
		t.since = marks[below-1].At.Add(-slack)
	}
	if above, _ := slices.BinarySearchFunc(marks, last, byID); above < len(marks) {
		t.until = marks[above].At.Add(slack)
	}
	return t
}

func (r *Reader) readMarks(ctx context.Context) (marks []mark, err error) {
	err = r.pool.SelectContext(ctx, &marks, `
SELECT MIN(txn_id) AS txn_id, MIN(marked_at) AS marked_at
  FROM zone_txn_mark
 GROUP BY DATE(marked_at)
 ORDER BY txn_id`)
	if err != nil {
		return nil, fmt.Errorf("read marks: %w", session.LookupError(err))
	}
	r.marks.Store(&marks)
	return marks, nil
}
