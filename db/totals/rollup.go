package totals

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/jmoiron/sqlx"

	"velocityd/db/retention"
	"velocityd/db/zonerow"
	"velocityd/service"
)

const (
	// firstSlice is how long an interval is that is rolled up at once at first.
	firstSlice = time.Minute
	// skipSlack is how much older a txn with a higher id may be.
	skipSlack = 2 * time.Minute
	// mostBuckets is how many buckets one transaction writes.
	mostBuckets = 2000
)

// Rollup returns the task that counts attempts. It counts each interval of created_at once, in the order of time, in
// the transaction that moves the progress; then each hour once more, when nothing in it changes any more. It reads txns
// by plain SELECTs, and locks none. On Vitess all that it writes lies in the unsharded keyspace. Its place is in
// totals_progress, which is written in the same transactions. Without ids it looks at all txns of the partitions of a
// time.
func Rollup(ids IDs) retention.Task {
	return retention.Task{Name: "totals", Every: 30 * time.Second, Run: ids.rollUp}
}

func (ids IDs) rollUp(ctx context.Context, on *sqlx.Conn, _ string) (result retention.Result, err error) {
	r := run{on: on, ids: ids, slice: firstSlice, isGap: true, written: &result.Removed}
	if r.at, err = start(ctx, on); err != nil {
		return result, fmt.Errorf("begin to roll up: %w", err)
	}
	r.began = r.at.Now
	for end := time.Now().Add(retention.Budget); time.Now().Before(end); {
		did, err := r.step(ctx)
		switch {
		case errors.Is(err, errOvertaken):
			return result, nil // by a runner that goes on
		case err != nil:
			return result, fmt.Errorf("roll up from %s: %w", r.at.RolledUpTo.Format(time.RFC3339), err)
		case !did:
			return result, nil
		}
	}
	result.Backlog = true
	return result, nil
}

// errOvertaken says that another runner has written.
var errOvertaken = errors.New("another roll-up is at work")

// run is one roll-up.
type run struct {
	on      *sqlx.Conn
	ids     IDs
	at      progress
	began   time.Time     // the engine's clock: attempts of later ones are left to the next run
	slice   time.Duration // the length of the next interval
	isGap   bool          // there may be hours without attempts ahead
	last    interval
	written *int64 // rows
}

// interval is an interval of created_at, and the condition of its txns. Several statements in turn are about one.
type interval struct {
	from, to time.Time
	txns     condition
}

// within returns the condition of the txns of an interval.
func (r *run) within(ctx context.Context, from, to time.Time) (condition, error) {
	if !r.last.from.Equal(from) || !r.last.to.Equal(to) {
		text, args, err := r.ids.within(ctx, from, to)
		if err != nil {
			return condition{}, err
		}
		r.last = interval{from, to, condition{text, slices.Clip(args)}}
	}
	return r.last.txns, nil
}

// start reads the progress, and makes its row if there is none.
func start(ctx context.Context, on *sqlx.Conn) (progress, error) {
	first, exists, err := readProgress(ctx, on)
	if err != nil || exists {
		return first, err
	}
	if _, err = on.ExecContext(ctx, `
INSERT IGNORE INTO totals_progress (id, rolled_up_to, final_to)
VALUES (1, ?, ?)`, first.RolledUpTo, first.FinalTo); err != nil {
		return first, err
	}
	first, _, err = readProgress(ctx, on)
	return first, err
}

// step does the next piece of work, if there is any.
func (r *run) step(ctx context.Context) (did bool, err error) {
	zones, err := zonerow.Zones(ctx, r.on, "\n ORDER BY id")
	if err != nil {
		return false, err
	}
	hourEnd := service.SpanHour.End(r.at.FinalTo)
	switch {
	case !hourEnd.After(r.at.RolledUpTo) && !hourEnd.Add(service.Settling(zones)).After(r.began):
		return true, r.finish(ctx)
	case !r.at.RolledUpTo.Before(r.began.Add(-service.TotalsLag)):
		return false, nil
	case r.isGap && r.at.RolledUpTo.Equal(r.at.FinalTo):
		r.isGap = false
		if skipped, err := r.skip(ctx); skipped || err != nil {
			return skipped, err
		}
	}
	return true, r.roll(ctx, zones)
}

// skip passes over hours without attempts, if all before are final, and says whether there were any.
func (r *run) skip(ctx context.Context) (skipped bool, err error) {
	txns, err := r.within(ctx, r.at.RolledUpTo, time.Time{})
	if err != nil {
		return false, err
	}
	next := r.began.Add(-service.TotalsLag)
	err = r.on.GetContext(ctx, &next, `
SELECT created_at
  FROM zone_txn FORCE INDEX (PRIMARY)
 WHERE `+txns.text+`
 ORDER BY id
 LIMIT 1`, txns.args...)
	if err != nil && !errors.Is(err, sql.ErrNoRows) {
		return false, err
	}
	// Txns with ids near each other may be in another order.
	hour := service.SpanHour.Begin(next.Add(-skipSlack))
	if !hour.After(r.at.RolledUpTo) {
		return false, nil
	}
	to := r.at
	to.RolledUpTo, to.FinalTo = hour, hour
	return true, r.write(ctx, to, func(*sqlx.Tx) error { return nil })
}

// write carries out a transaction that moves the progress, unless something else has moved it since the run has read
// it.
func (r *run) write(ctx context.Context, to progress, do func(tx *sqlx.Tx) error) error {
	tx, err := r.on.BeginTxx(ctx, nil)
	if err != nil {
		return err
	}
	defer tx.Rollback() // after Commit it does nothing
	if err := to.move(ctx, tx); err != nil {
		return err
	}
	if err := do(tx); err != nil {
		return err
	}
	if err := tx.Commit(); err != nil {
		return err
	}
	r.at = to
	return nil
}

// exec carries out a statement, and notes how many rows it wrote.
func (r *run) exec(ctx context.Context, tx *sqlx.Tx, query string, args ...any) error {
	done, err := tx.ExecContext(ctx, query, args...)
	if err != nil {
		return err
	}
	n, err := done.RowsAffected()
	*r.written += n
	return err
}

// writeZones writes the totals of zones in an hour: as they are, or added to those that are there.
func (r *run) writeZones(ctx context.Context, tx *sqlx.Tx, hour time.Time, rows []row, isSum bool) error {
	for some := range slices.Chunk(rows, writtenAtOnce) {
		var args []any
		for _, z := range some {
			args = append(append(append(args, z.ZoneID, hour), z.values()...), z.Buckets, !isSum)
		}
		if err := r.exec(ctx, tx, `
INSERT INTO zone_hour (zone_id, hour, `+counts+`, buckets, final)
VALUES `+list(len(some), "(?, ?, ?, ?, ?, ?, ?, ?, ?, ?)")+`
ON DUPLICATE KEY UPDATE `+assign(isSum)+`, buckets = VALUES(buckets), final = VALUES(final)`, args...); err != nil {
			return err
		}
	}
	return nil
}

// writtenAtOnce is how many rows one statement writes.
const writtenAtOnce = 500

// writeBuckets writes the totals of buckets in an hour, as they are or added to those that are there, and adds the
// differences to the day, the month and all that hold the hour.
func (r *run) writeBuckets(
	ctx context.Context, tx *sqlx.Tx, hour time.Time, now []row, isSum bool, differences []row,
) error {
	for _, of := range []struct {
		span  string
		begin time.Time
		rows  []row
		isSum bool
	}{
		{string(service.SpanHour), hour, now, isSum},
		{string(service.SpanDay), service.SpanDay.Begin(hour), differences, true},
		{string(service.SpanMonth), service.SpanMonth.Begin(hour), differences, true},
		{"all", time.Unix(0, 0).UTC(), differences, true},
	} {
		for some := range slices.Chunk(of.rows, writtenAtOnce) {
			var args []any
			for _, b := range some {
				args = append(append(append(args, b.ZoneID, b.Key, of.span, of.begin), b.values()...), b.LastAt)
			}
			if err := r.exec(ctx, tx, `
INSERT INTO zone_bucket_total (zone_id, bucket_key, span, begins_at, `+counts+`, last_at)
VALUES `+list(len(some), "(?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)")+`
ON DUPLICATE KEY UPDATE `+assign(of.isSum)+`, last_at = GREATEST(last_at, VALUES(last_at))`, args...); err != nil {
				return err
			}
		}
	}
	return nil
}
