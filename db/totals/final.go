package totals

import (
	"context"
	"time"

	"github.com/jmoiron/sqlx"

	"velocityd/db/session"
	"velocityd/internal/engine"
	"velocityd/service"
)

const (
	// partBuckets is how many buckets of an hour are counted for the second time by one statement, more or less. They are
	// in memory then.
	partBuckets = 50_000
	// partOnVitess is less than the rows with which a vttablet answers, even if some parts have more buckets than others.
	partOnVitess = 5000
)

// finish does the next step of the second count of an hour: that of the zones comes first, then parts of the buckets.
// Each step may be done again, because it writes the numbers as they are. After the last one the hour is final.
func (r *run) finish(ctx context.Context) error {
	hour, to := r.at.FinalTo, r.at
	to.Part++
	if r.at.Part == 0 {
		return r.finishZones(ctx, hour, to)
	}
	parts, err := r.parts(ctx, hour)
	switch {
	case err != nil:
		return err
	case r.at.Part <= parts:
		return r.finishPart(ctx, hour, parts, to)
	}
	to.FinalTo, to.Part = service.SpanHour.End(hour), 0
	return r.write(ctx, to, func(*sqlx.Tx) error { return nil })
}

// finishZones counts the attempts of an hour by zone.
func (r *run) finishZones(ctx context.Context, hour time.Time, to progress) error {
	zones, err := r.zoneSums(ctx, hour, service.SpanHour.End(hour), "COUNT(DISTINCT bucket_key)")
	if err != nil {
		return err
	}
	return r.write(ctx, to, func(tx *sqlx.Tx) error {
		if err := r.writeZones(ctx, tx, hour, zones, false); err != nil {
			return err
		}
		return r.exec(ctx, tx, `
UPDATE zone_hour
   SET final = TRUE
 WHERE hour = ?`, hour) // also of zones whose txns are gone
	})
}

// parts returns in how many parts the buckets of an hour are counted.
func (r *run) parts(ctx context.Context, hour time.Time) (parts int, err error) {
	own, err := session.Of(r.on.Conn)
	if err != nil {
		return 0, err
	}
	size := partBuckets
	if own.Engine == engine.Vitess {
		size = partOnVitess
	}
	var buckets int
	err = r.on.GetContext(ctx, &buckets, `
SELECT COALESCE(SUM(h.buckets), 0)
  FROM zone_hour AS h
  JOIN zone_totals_since AS s ON s.zone_id = h.zone_id
 WHERE h.hour = ?`, hour)
	return (buckets + size - 1) / size, err
}

// finishPart counts the attempts of the buckets of one part of an hour. The difference from the first count goes to
// their days, months and all.
func (r *run) finishPart(ctx context.Context, hour time.Time, parts int, to progress) error {
	of, err := r.keptIn(ctx, hour)
	if err != nil {
		return err
	}
	if of.text != "" {
		of = condition{"(" + of.text + ") AND CRC32(bucket_key) % ? = ?", append(of.args, parts, r.at.Part-1)}
	}
	buckets, err := r.buckets(ctx, hour, service.SpanHour.End(hour), of, 100*partBuckets)
	if err != nil {
		return err
	}
	var before []row
	if err := r.on.SelectContext(ctx, &before, `
SELECT zone_id, bucket_key, `+counts+`, last_at
  FROM zone_bucket_total
 WHERE span = 'hour'
   AND begins_at = ?
   AND CRC32(bucket_key) % ? = ?`, hour, parts, r.at.Part-1); err != nil {
		return err
	}
	now, differences := changed(before, buckets)
	for from := 0; from < len(now); from += mostBuckets {
		end := min(len(now), from+mostBuckets)
		if err := r.write(ctx, r.at, func(tx *sqlx.Tx) error {
			return r.writeBuckets(ctx, tx, hour, now[from:end], false, differences[from:end])
		}); err != nil {
			return err
		}
	}
	to.Pass = r.at.Pass
	return r.write(ctx, to, func(*sqlx.Tx) error { return nil })
}

// keptIn returns the condition of the txns that are counted by bucket in an hour.
func (r *run) keptIn(ctx context.Context, hour time.Time) (of condition, err error) {
	var kept []struct {
		ZoneID int64     `db:"zone_id"`
		Since  time.Time `db:"since"`
	}
	if err := r.on.SelectContext(ctx, &kept, `
SELECT zone_id, since
  FROM zone_totals_since
 WHERE since < ?
 ORDER BY zone_id`, service.SpanHour.End(hour)); err != nil {
		return of, err
	}
	var whole []any
	var within condition
	for _, zone := range kept {
		if !zone.Since.After(hour) {
			whole = append(whole, zone.ZoneID)
			continue
		}
		within.text += " OR zone_id = ? AND created_at >= ?"
		within.args = append(within.args, zone.ZoneID, zone.Since)
	}
	of = inZones(whole)
	if of.text == "" && within.text != "" {
		of.text = "FALSE"
	}
	return condition{of.text + within.text, append(of.args, within.args...)}, nil
}

// changed returns the buckets whose numbers have changed, as they became, and the differences.
func changed(before, now []row) (changed, differences []row) {
	old := make(map[service.Bucket]row, len(before))
	for _, b := range before {
		old[b.bucket()] = b
	}
	for _, b := range now {
		was := old[b.bucket()]
		if b.totals() != was.totals() || b.LastAt.After(was.LastAt) {
			changed = append(changed, b)
			b.numbers = numbers(b.totals().Minus(was.totals()))
			differences = append(differences, b)
		}
	}
	return changed, differences
}
