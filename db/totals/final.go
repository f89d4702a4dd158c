package totals

import (
	"context"
	"slices"
	"time"

	"github.com/jmoiron/sqlx"

	"velocityd/db/engine"
	"velocityd/db/session"
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
	hour := r.at.FinalTo
	if r.at.Part == 0 {
		return r.finishZones(ctx, hour)
	}
	parts, err := r.parts(ctx, r.on, hour)
	if err != nil {
		return err
	}
	return r.finishPart(ctx, hour, parts)
}

// finishZones counts the attempts of an hour by zone.
func (r *run) finishZones(ctx context.Context, hour time.Time) error {
	zones, err := r.zoneSums(ctx, hour, service.SpanHour.End(hour), "COUNT(DISTINCT bucket_key)")
	if err != nil {
		return err
	}
	return r.write(ctx, func(tx *sqlx.Tx) error {
		if err := r.writeZones(ctx, tx, hour, zones, false); err != nil {
			return err
		}
		if err := r.exec(ctx, tx, `
UPDATE zone_hour
   SET final = TRUE
 WHERE hour = ?`, hour); err != nil { // also of zones whose txns are gone
			return err
		}
		parts, err := r.parts(ctx, tx, hour)
		if err != nil {
			return err
		}
		return r.partDone(ctx, tx, hour, parts)
	})
}

// partDone notes that a step is done, and with the last one that the hour is final.
func (r *run) partDone(ctx context.Context, tx *sqlx.Tx, hour time.Time, parts int) error {
	finalTo, done := hour, r.at.Part+1
	if done > parts {
		finalTo, done = service.SpanHour.End(hour), 0
	}
	_, err := tx.ExecContext(ctx, `
UPDATE totals_progress
   SET final_to = ?, part = ?
 WHERE id = 1`, finalTo, done)
	return err
}

// parts returns in how many parts the buckets of an hour are counted.
func (r *run) parts(ctx context.Context, from session.Reader, hour time.Time) (parts int, err error) {
	own, err := session.Of(r.on.Conn)
	if err != nil {
		return 0, err
	}
	size := partBuckets
	if own.Engine == engine.Vitess {
		size = partOnVitess
	}
	var buckets int
	err = from.GetContext(ctx, &buckets, `
SELECT COALESCE(SUM(h.buckets), 0)
  FROM zone_hour AS h
  JOIN zone_totals_since AS s ON s.zone_id = h.zone_id
 WHERE h.hour = ?`, hour)
	return (buckets + size - 1) / size, err
}

// finishPart counts the attempts of the buckets of one part of an hour. The difference from the first count goes to
// their days, months and all.
func (r *run) finishPart(ctx context.Context, hour time.Time, parts int) error {
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
	for some := range slices.Chunk(changed(before, buckets), mostBuckets) {
		if err := r.write(ctx, func(tx *sqlx.Tx) error { return r.correct(ctx, tx, hour, some) }); err != nil {
			return err
		}
	}
	return r.write(ctx, func(tx *sqlx.Tx) error { return r.partDone(ctx, tx, hour, parts) })
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

// correction is a row of an hour as it becomes, and the difference from the one before.
type correction struct{ now, difference row }

// changed returns the corrections of buckets whose numbers have changed.
func changed(before, now []row) (corrections []correction) {
	old := make(map[service.Bucket]row, len(before))
	for _, b := range before {
		old[b.bucket()] = b
	}
	for _, b := range now {
		was := old[b.bucket()]
		if b.totals() != was.totals() || b.LastAt.After(was.LastAt) {
			corrections = append(corrections, correction{b, b.with(b.totals().Minus(was.totals()))})
		}
	}
	return corrections
}

func (r *run) correct(ctx context.Context, tx *sqlx.Tx, hour time.Time, corrections []correction) error {
	var now, differences []row
	for _, c := range corrections {
		now, differences = append(now, c.now), append(differences, c.difference)
	}
	if err := r.writeBuckets(ctx, tx, string(service.SpanHour), hour, now, false); err != nil {
		return err
	}
	return r.addBuckets(ctx, tx, hour, differences)
}
