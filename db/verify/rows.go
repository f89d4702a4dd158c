package verify

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"velocityd/service"
	"velocityd/service/proof"
)

// rowColumns are those of which row makes a proof.Row. Times are numbers of microseconds, which cost less than text.
const rowColumns = "id, TIMESTAMPDIFF(MICROSECOND, '1970-01-01', created_at), zone_id, bucket_key, " +
	"blocked + 2 * would_block + 4 * counted, COALESCE(reason, ''), COALESCE(outcome, ''), COALESCE(attempt_id, ''), " +
	"check_id, check_buckets, 1 + COALESCE(repeats, 0), " +
	"TIMESTAMPDIFF(MICROSECOND, '1970-01-01', repeated_at), TIMESTAMPDIFF(MICROSECOND, '1970-01-01', uncounted_at)"

// row returns a row of rowColumns.
func (r reading) row() proof.Row {
	const blocked, wouldBlock, counted = 1, 2, 4
	flags := r.int(4)
	row := proof.Row{
		Txn: service.Txn{
			ID: r.uint(0), CreatedAt: service.At(r.instant(1)), Bucket: service.Bucket{ZoneID: r.int(2), Key: r.text(3)},
			Blocked: flags&blocked != 0, WouldBlock: flags&wouldBlock != 0, Counted: flags&counted != 0,
			Reason: service.Reason(r.text(5)), Outcome: service.Outcome(r.text(6)), AttemptID: r.text(7),
			Attempts: int(r.int(10)), LastAt: service.At(r.instant(11)), UncountedAt: service.At(r.instant(12)),
		},
		CheckID: r.uint(8), CheckBuckets: int(r.int(9)),
	}
	if row.LastAt.IsZero() {
		row.LastAt = row.CreatedAt
	}
	return row
}

// verifyRows judges all txns from an id on; more than once, if the windows of all buckets need too much memory at once.
func (v *verifier) verifyRows(ctx context.Context, first uint64) error {
	windows := proof.NewWindows(v.Rules, v.Places)
	whole := proof.New(v.Rules, v.Since, windows, v.found,
		func(rows []proof.Row) { v.suspects = append(v.suspects, rows) })
	last, err := v.highestID(ctx)
	if err != nil {
		return err
	}
	progress := Progress{First: first, Last: last}
	err = v.readRows(ctx, first, &progress, func(row *proof.Row) {
		whole.Add(row)
		if v.hours.Add(row); v.oldest.IsZero() || row.CreatedAt.Before(v.oldest) {
			v.oldest = row.CreatedAt.Time
		}
	})
	whole.End()
	err = errors.Join(err, v.judgeSuspects(ctx))
	v.result.Rows, v.result.Readings, v.result.Unknown = progress.Rows, 1, whole.Unknown
	for err == nil && v.failed == nil && windows.Next() {
		v.result.Readings++
		progress.Parts = windows.Parts()
		err = v.readRows(ctx, first, &progress, func(row *proof.Row) {
			if f, over := windows.Add(row); over && !row.CreatedAt.Before(v.Since) {
				v.found(f)
			}
		})
	}
	if err == nil {
		err = v.failed
	}
	return err
}

func (v *verifier) highestID(ctx context.Context) (id uint64, err error) {
	err = each(ctx, v.on, "SELECT MAX(id) FROM zone_txn", func(r reading) { id = r.uint(0) })
	return id, err
}

// readRows calls do with the txns from an id on until the end of the proof, in the order of their ids. They are read by
// pieces of the primary key, without a bound of time, so that no row is passed over that is where it must not be.
func (v *verifier) readRows(ctx context.Context, first uint64, progress *Progress, do func(*proof.Row)) error {
	zones := ""
	if len(v.Zones) > 0 {
		zones = " AND zone_id IN (" + strings.Trim(strings.Join(strings.Fields(fmt.Sprint(v.Zones)), ", "), "[]") + ")"
	}
	until := v.result.Until.Format(instantFormat)
	last, seen := first, map[time.Time]bool{} // the rows with the id last that were read
	for isAll := false; !isAll && v.failed == nil; {
		n, isNew := 0, false
		err := each(ctx, v.on, fmt.Sprintf(`
SELECT %s
  FROM zone_txn FORCE INDEX (PRIMARY)
 WHERE id >= %d
   AND created_at <= '%s'%s
 ORDER BY id, created_at
 LIMIT %d`, rowColumns, last, until, zones, rowsAtOnce), func(r reading) {
			row := r.row()
			if n++; row.ID == last && seen[row.CreatedAt.Time] {
				return
			}
			if row.ID != last {
				last = row.ID
				clear(seen)
			}
			seen[row.CreatedAt.Time], isNew = true, true
			progress.Rows, progress.At, progress.ID = progress.Rows+1, row.CreatedAt.Time, row.ID
			do(&row)
		})
		if err != nil {
			return fmt.Errorf("txns from %d on: %w", last, err)
		}
		if err := v.judgeSuspects(ctx); err != nil {
			return err
		}
		isAll = n < rowsAtOnce || !isNew
		if v.Progress != nil {
			v.Progress(*progress)
		}
	}
	return v.failed
}

// judgeSuspects judges the checks that may be torn.
func (v *verifier) judgeSuspects(ctx context.Context) error {
	for _, rows := range v.suspects {
		if v.failed != nil {
			break
		}
		if err := v.judgeAgain(ctx, rows[0]); err != nil {
			return fmt.Errorf("read check %d again: %w", rows[0].CheckID, err)
		}
	}
	v.suspects = nil
	return nil
}

// judgeAgain reads the txns of the check of one of them by one statement, which sees all of them as they are at one
// instant, and judges them. Of a check that is older than the policy keeps, retention may have removed some.
func (v *verifier) judgeAgain(ctx context.Context, first proof.Row) error {
	var again []proof.Row
	from, until := first.ID-min(first.ID, proof.CheckSpan), first.ID+proof.CheckSpan
	err := each(ctx, v.on, fmt.Sprintf(`
SELECT %s
  FROM zone_txn FORCE INDEX (PRIMARY)
 WHERE id BETWEEN %d AND %d
   AND check_id = %d
 ORDER BY id`, rowColumns, from, until, first.CheckID), func(r reading) { again = append(again, r.row()) })
	if err != nil || len(again) == 0 || first.CreatedAt.Before(v.kept) && len(again) < first.CheckBuckets {
		return err
	}
	for _, f := range proof.JudgeCheck(again, v.Rules.HasSeries()) {
		v.found(f)
	}
	return nil
}
