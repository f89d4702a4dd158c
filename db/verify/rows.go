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
	"blocked + 2 * would_block + 4 * counted + 8 * (imprint IS NOT NULL), COALESCE(reason, ''), " +
	"COALESCE(outcome, ''), COALESCE(attempt_id, ''), " +
	"check_id, check_buckets, 1 + COALESCE(repeats, 0), " +
	"TIMESTAMPDIFF(MICROSECOND, '1970-01-01', repeated_at), TIMESTAMPDIFF(MICROSECOND, '1970-01-01', uncounted_at), " +
	"COALESCE(override_id, 0)"

// row returns a row of rowColumns.
func (r reading) row() proof.Row {
	const blocked, wouldBlock, counted, imprint = 1, 2, 4, 8
	flags := r.int(4)
	row := proof.Row{
		Txn: service.Txn{
			ID: r.uint(0), CreatedAt: service.At(r.instant(1)), Bucket: service.Bucket{ZoneID: r.int(2), Key: r.text(3)},
			Blocked: flags&blocked != 0, WouldBlock: flags&wouldBlock != 0, Counted: flags&counted != 0,
			Reason: service.Reason(r.text(5)), Outcome: service.Outcome(r.text(6)), AttemptID: r.text(7),
			Attempts: int(r.int(10)), LastAt: service.At(r.instant(11)), UncountedAt: service.At(r.instant(12)),
			CheckID: r.uint(8), OverrideID: r.uint(13),
		},
		CheckBuckets: int(r.int(9)), HasImprint: flags&imprint != 0,
	}
	if row.LastAt.IsZero() {
		row.LastAt = row.CreatedAt
	}
	return row
}

// verifyRows judges all txns from an id on; more than once, if the windows of all buckets need too much memory at once.
func (v *verifier) verifyRows(ctx context.Context, first uint64) error {
	windows := proof.NewWindows(v.Rules, v.Places, v.found)
	windows.Since, windows.Complete = v.Since, v.kept
	windows.Suspect = func(row proof.Row) { v.given = append(v.given, row) }
	if len(v.Zones) == 0 {
		windows.Began = func(l proof.Lockout) { v.began = append(v.began, l) }
	}
	v.result.Unknown = windows.Unknown
	whole := proof.New(v.Rules, windows, func(rows []proof.Row) { v.suspects = append(v.suspects, rows) })
	last, err := v.highestID(ctx)
	if err != nil {
		return err
	}
	progress := Progress{First: first, Last: last}
	err = v.readRows(ctx, first, &progress, func(row *proof.Row) {
		if v.oldest.IsZero() && row.ID != 1 && row.CreatedAt.After(windows.Complete) {
			windows.Complete = row.CreatedAt.Time // rows before the first are gone, or are not read
		}
		whole.Add(row)
		if v.hours.Add(row); v.oldest.IsZero() || row.CreatedAt.Before(v.oldest) {
			v.oldest = row.CreatedAt.Time
		}
	})
	whole.End()
	v.result.Rows, v.result.Readings = progress.Rows, 1
	for err == nil && v.failed == nil && windows.Next() {
		v.result.Readings++
		progress.Parts = windows.Parts()
		err = v.readRows(ctx, first, &progress, windows.Add)
	}
	if err = errors.Join(err, v.judgeSuspects(ctx)); err == nil {
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

// judgeSuspects judges the checks that may be torn, the places that may have been given back by nothing, and the
// lockouts that began.
func (v *verifier) judgeSuspects(ctx context.Context) error {
	for _, rows := range v.suspects {
		if v.failed != nil {
			break
		}
		if err := v.judgeAgain(ctx, rows[0]); err != nil {
			return fmt.Errorf("read check %d again: %w", rows[0].CheckID, err)
		}
	}
	for _, row := range v.given {
		if v.failed != nil {
			break
		}
		if err := v.judgeGiven(ctx, row); err != nil {
			return fmt.Errorf("look for the success that gave the place of txn %d back: %w", row.ID, err)
		}
	}
	v.suspects, v.given = nil, nil
	return v.judgeBegan(ctx)
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
	for _, f := range proof.JudgeCheck(again) {
		v.found(f)
	}
	return nil
}

// longestLogin is how long after an attempt its success is expected at the latest.
const longestLogin = 24 * time.Hour

// judgeGiven looks for a success in the bucket of a txn whose place was given back by one. Retention may have removed
// the txn of the success, and left a later one.
func (v *verifier) judgeGiven(ctx context.Context, row proof.Row) error {
	isThere := false
	err := each(ctx, v.on, fmt.Sprintf(`
SELECT 1
  FROM zone_txn FORCE INDEX (zone_txn_window)
 WHERE %s
   AND counted IN (0, 1)
   AND outcome = 'success'
   AND created_at <= '%s'
 LIMIT 1`, inBucket(row.Bucket), row.UncountedAt.Format(instantFormat)), func(reading) { isThere = true })
	switch {
	case err != nil || isThere:
	case row.UncountedAt.Before(v.kept.Add(longestLogin)):
		v.result.Unknown[proof.CauseHistory]++
	default:
		v.found(proof.LacksSuccess(&row))
	}
	return err
}
