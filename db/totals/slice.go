package totals

import (
	"context"
	"time"

	"github.com/jmoiron/sqlx"

	"velocityd/service"
)

// roll counts the attempts of the next interval. If they are in too many buckets for one transaction, it makes the
// interval shorter, and otherwise the next one longer: an hour at most.
func (r *run) roll(ctx context.Context, zones []service.Zone) error {
	const shortest = 10 * time.Millisecond
	from := r.at.RolledUpTo
	hour := service.SpanHour.Begin(from)
	last := r.began.Add(-service.TotalsLag)
	if end := service.SpanHour.End(hour); end.Before(last) {
		last = end
	}
	keeping := keeping(zones)
	for {
		to := from.Add(r.slice)
		if to.After(last) {
			to = last
		}
		buckets, err := r.buckets(ctx, from, to, inZones(keeping), mostBuckets+1)
		if err != nil {
			return err
		}
		if len(buckets) > mostBuckets && r.slice > shortest {
			r.slice /= 2
			continue
		}
		sums, err := r.zoneSums(ctx, from, to, "NULL")
		if err != nil {
			return err
		}
		r.isGap = len(sums) == 0
		if len(buckets) < mostBuckets/2 {
			r.slice = min(2*r.slice, time.Hour)
		}
		moved := r.at
		moved.RolledUpTo = to
		return r.write(ctx, moved, func(tx *sqlx.Tx) error {
			if err := noteKeeping(ctx, tx, keeping, from); err != nil {
				return err
			}
			if err := r.writeZones(ctx, tx, hour, sums, true); err != nil {
				return err
			}
			return r.writeBuckets(ctx, tx, hour, buckets, true, buckets)
		})
	}
}

// keeping returns the ids of the zones with totals, as arguments.
func keeping(zones []service.Zone) (ids []any) {
	for _, zone := range zones {
		if zone.Totals {
			ids = append(ids, zone.ID)
		}
	}
	return ids
}

// noteKeeping notes since when zones have totals: for those that have them from now on, since the begin of this
// interval.
func noteKeeping(ctx context.Context, tx *sqlx.Tx, keeping []any, begin time.Time) error {
	if len(keeping) == 0 {
		_, err := tx.ExecContext(ctx, "DELETE FROM zone_totals_since")
		return err
	}
	if _, err := tx.ExecContext(ctx, `
DELETE FROM zone_totals_since
 WHERE zone_id NOT IN (`+list(len(keeping), "?")+`)`, keeping...); err != nil {
		return err
	}
	var args []any
	for _, id := range keeping {
		args = append(args, id, begin)
	}
	_, err := tx.ExecContext(ctx, `
INSERT INTO zone_totals_since (zone_id, since)
VALUES `+list(len(keeping), "(?, ?)")+`
ON DUPLICATE KEY UPDATE since = since`, args...)
	return err
}

// zoneSums counts the attempts of an interval by zone. buckets is the SQL of the number of buckets.
func (r *run) zoneSums(ctx context.Context, from, to time.Time, buckets string) (rows []row, err error) {
	txns, err := r.within(ctx, from, to)
	if err != nil {
		return nil, err
	}
	err = r.on.SelectContext(ctx, &rows, `
SELECT zone_id, `+sums+`, `+buckets+` AS buckets
  FROM zone_txn FORCE INDEX (PRIMARY)
 WHERE `+txns.text+`
 GROUP BY zone_id`, txns.args...)
	return rows, err
}

// condition is a condition on txns, and its arguments. Without text it holds for none.
type condition struct {
	text string
	args []any
}

// inZones holds for the txns of zones.
func inZones(ids []any) condition {
	if len(ids) == 0 {
		return condition{}
	}
	return condition{"zone_id IN (" + list(len(ids), "?") + ")", ids}
}

// buckets counts the attempts of an interval by bucket, of the txns for which a condition holds. It returns most rows
// at most.
func (r *run) buckets(ctx context.Context, from, to time.Time, of condition, most int) (rows []row, err error) {
	if of.text == "" {
		return nil, nil
	}
	txns, err := r.within(ctx, from, to)
	if err != nil {
		return nil, err
	}
	err = r.on.SelectContext(ctx, &rows, `
SELECT zone_id, bucket_key, `+sums+`
  FROM zone_txn FORCE INDEX (PRIMARY)
 WHERE `+txns.text+`
   AND (`+of.text+`)
 GROUP BY zone_id, bucket_key
 LIMIT ?`, append(append(txns.args, of.args...), most)...)
	return rows, err
}
