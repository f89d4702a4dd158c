package prover

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

// proveRows judges all txns from an id on; more than once, if the windows of all buckets need too much memory at once.
func (p *prover) proveRows(ctx context.Context, first uint64) error {
	windows := proof.NewWindows(p.Rules, p.Places)
	whole := proof.New(p.Rules, p.Since, windows, p.found,
		func(rows []proof.Row) { p.suspects = append(p.suspects, rows) })
	last, err := p.highestID(ctx)
	if err != nil {
		return err
	}
	progress := Progress{First: first, Last: last}
	err = p.readRows(ctx, first, &progress, func(row *proof.Row) {
		whole.Add(row)
		if p.hours.Add(row); p.oldest.IsZero() || row.CreatedAt.Before(p.oldest) {
			p.oldest = row.CreatedAt.Time
		}
	})
	whole.End()
	err = errors.Join(err, p.judgeSuspects(ctx))
	p.result.Rows, p.result.Readings, p.result.Unknown = progress.Rows, 1, whole.Unknown
	for err == nil && p.failed == nil && windows.Next() {
		p.result.Readings++
		progress.Parts = windows.Parts()
		err = p.readRows(ctx, first, &progress, func(row *proof.Row) {
			if f, over := windows.Add(row); over && !row.CreatedAt.Before(p.Since) {
				p.found(f)
			}
		})
	}
	if err == nil {
		err = p.failed
	}
	return err
}

func (p *prover) highestID(ctx context.Context) (id uint64, err error) {
	err = each(ctx, p.on, "SELECT MAX(id) FROM zone_txn", func(r reading) { id = r.uint(0) })
	return id, err
}

// readRows calls do with the txns from an id on until the end of the proof, in the order of their ids. They are read by
// pieces of the primary key, without a bound of time, so that no row is passed over that is where it must not be.
func (p *prover) readRows(ctx context.Context, first uint64, progress *Progress, do func(*proof.Row)) error {
	zones := ""
	if len(p.Zones) > 0 {
		zones = " AND zone_id IN (" + strings.Trim(strings.Join(strings.Fields(fmt.Sprint(p.Zones)), ", "), "[]") + ")"
	}
	until := p.result.Until.Format(instantFormat)
	last, seen := first, map[time.Time]bool{} // the rows with the id last that were read
	for isAll := false; !isAll && p.failed == nil; {
		n, isNew := 0, false
		err := each(ctx, p.on, fmt.Sprintf(`
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
		if err := p.judgeSuspects(ctx); err != nil {
			return err
		}
		isAll = n < rowsAtOnce || !isNew
		if p.Progress != nil {
			p.Progress(*progress)
		}
	}
	return p.failed
}

// judgeSuspects judges the checks that may be torn.
func (p *prover) judgeSuspects(ctx context.Context) error {
	for _, rows := range p.suspects {
		if p.failed != nil {
			break
		}
		if err := p.judgeAgain(ctx, rows[0]); err != nil {
			return fmt.Errorf("read check %d again: %w", rows[0].CheckID, err)
		}
	}
	p.suspects = nil
	return nil
}

// judgeAgain reads the txns of the check of one of them by one statement, which sees all of them as they are at one
// instant, and judges them. Of a check that is older than the policy keeps, retention may have removed some.
func (p *prover) judgeAgain(ctx context.Context, first proof.Row) error {
	var again []proof.Row
	from, until := first.ID-min(first.ID, proof.CheckSpan), first.ID+proof.CheckSpan
	err := each(ctx, p.on, fmt.Sprintf(`
SELECT %s
  FROM zone_txn FORCE INDEX (PRIMARY)
 WHERE id BETWEEN %d AND %d
   AND check_id = %d
 ORDER BY id`, rowColumns, from, until, first.CheckID), func(r reading) { again = append(again, r.row()) })
	if err != nil || len(again) == 0 || first.CreatedAt.Before(p.kept) && len(again) < first.CheckBuckets {
		return err
	}
	for _, f := range proof.JudgeCheck(again, p.Rules.HasSeries()) {
		p.found(f)
	}
	return nil
}
