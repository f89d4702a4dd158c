package db

import (
	"database/sql/driver"

	"velocityd/db/session"
	"velocityd/service"
)

// listOpen lists the attempts of buckets that are under way, in zones with concurrent: the newest of the counted
// txns without an outcome. The range of zone_txn_window holds the counted txns of the last reserve_ttl, no more
// than the rate, and their rows are read until enough have no outcome.
func (b *batch) listOpen(r *session.Reading) {
	for i, bucket := range b.buckets {
		state, plan := &b.ledger.Buckets[i], b.known.plans[bucket.ZoneID].open
		if state.Open = nil; plan.most == 0 || b.of[i].lock == held {
			continue
		}
		r.SQL("SELECT created_at" + fromCounted)
		r.Keys([]service.Bucket{bucket}, nil)
		r.SQL(") AND created_at > ").Instant(b.known.supposed.Add(-plan.reserve - clockMargin)).
			SQL(" AND outcome IS NULL ORDER BY created_at DESC LIMIT ").Int(int64(plan.most)).SQL(";")
		r.Each(1, func(row []driver.Value) error {
			at, err := session.AsInstant(row[0])
			state.Open = append(state.Open, at)
			return err
		})
	}
}
