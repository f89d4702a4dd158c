package db

import (
	"database/sql/driver"
	"encoding/json"
	"time"

	"velocityd/service"
)

// Where a zone records only the first of many blocked attempts, the lock row of a bucket keeps its series of
// them: see service.Series.
const seriesColumns = "blocked_began, blocked_txns, blocked_txn_id, blocked_txn_at, blocked_reason, blocked_override_id"

// readSeries reads the series of buckets whose zones do not record all blocked attempts.
func (b *batch) readSeries(r *reading) {
	var of []service.Bucket
	for i, bucket := range b.buckets {
		b.ledger.Buckets[i].Series = service.Series{}
		if b.of[i].lock != held && b.known.plans[bucket.ZoneID].hasSeries {
			of = append(of, bucket)
		}
	}
	if len(of) == 0 {
		return
	}
	for part := range b.parts(of) {
		r.sql("SELECT zone_id, bucket_key, " + seriesColumns + " FROM zone_bucket_lock FORCE INDEX (PRIMARY) WHERE ")
		b.where(r, part, nil)
		r.sql(";")
		r.each(8, b.addSeries)
	}
}

func (b *batch) addSeries(row []driver.Value) error {
	place, err := b.place(row)
	if err != nil || row[2] == nil {
		return err
	}
	s := service.Series{
		Txns: int(asInt(row[3])), TxnID: uint64(asInt(row[4])), Reason: service.Reason(text(row[6])), OverrideID: uint64(asInt(row[7])),
	}
	for i, instant := range map[int]*time.Time{2: &s.Began, 5: &s.TxnAt} {
		if *instant, err = asInstant(row[i]); err != nil {
			return err
		}
	}
	b.ledger.Buckets[place].Series = s
	return nil
}

// writeSeries writes the series in which a txn is recorded now. The rows are locked already.
func (b *batch) writeSeries(p *packet, ruling *service.Ruling) {
	for _, bucket := range b.buckets {
		s, isLonger := ruling.Series[bucket]
		if !isLonger {
			continue
		}
		p.sql("UPDATE zone_bucket_lock SET blocked_began = ").instant(s.Began).sql(", blocked_txns = ").int(int64(s.Txns)).
			sql(", blocked_txn_id = ")
		b.txnID(p, s.TxnID)
		p.sql(", blocked_txn_at = ").instant(s.TxnAt).sql(", blocked_reason = ").orNull(string(s.Reason)).
			sql(", blocked_override_id = ").idOrNull(s.OverrideID).whereBucket(bucket).sql(";")
	}
}

// txnID writes the id of a txn of a ruling. That of a new txn follows from the id of the first one, which
// only the engine knows yet.
func (b *batch) txnID(p *packet, id uint64) {
	if place, isNew := service.PlaceOf(id); isNew {
		p.sql("LAST_INSERT_ID()+").uint(place * b.idStep)
		return
	}
	p.uint(id)
}

// countRepeats writes that earlier txns stand for more attempts, and returns how many statements that takes.
func (b *batch) countRepeats(p *packet, ruling *service.Ruling) (statements int) {
	if len(ruling.Repeats) == 0 {
		return 0
	}
	if b.conn.dialect.hasRoutines {
		list := make([][3]any, len(ruling.Repeats))
		for i, r := range ruling.Repeats {
			list[i] = [3]any{r.TxnID, r.TxnAt.Format(instantFormat), r.Count}
		}
		text, _ := json.Marshal(list) // numbers and a time cannot fail
		p.sql("CALL repeat_txns(").string(string(text)).sql(",").instant(b.now).sql(");")
		return 1
	}
	for _, r := range ruling.Repeats {
		p.sql("UPDATE zone_txn FORCE INDEX (PRIMARY) SET repeats = COALESCE(repeats, 0) + ").int(int64(r.Count)).
			sql(", repeated_at = ").instant(b.now).whereBucket(r.Bucket).
			sql(" AND id = ").uint(r.TxnID)
		p.sql(" AND created_at = ").instant(r.TxnAt).sql(" AND blocked = TRUE;")
	}
	return len(ruling.Repeats)
}
