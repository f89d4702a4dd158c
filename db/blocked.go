package db

import (
	"database/sql/driver"
	"time"

	"velocityd/db/session"
	"velocityd/service"
)

// Where a zone records only the first of many blocked attempts, the lock row of a bucket keeps its series of
// them: see service.Series.
const seriesColumns = "blocked_began, blocked_txns, blocked_txn_id, blocked_txn_at, blocked_reason, blocked_override_id"

// selectSeries reads them, without the condition.
const selectSeries = "SELECT zone_id, bucket_key, " + seriesColumns +
	" FROM zone_bucket_lock FORCE INDEX (PRIMARY) WHERE "

// readSeries reads the series of buckets whose zones do not record all blocked attempts.
func (b *batch) readSeries(r *session.Reading) {
	var of []service.Bucket
	for i, bucket := range b.buckets {
		b.ledger.Buckets[i].Series = nil
		if b.of[i].lock != held && b.known.plans[bucket.ZoneID].hasSeries {
			of = append(of, bucket)
		}
	}
	if len(of) == 0 {
		return
	}
	for part := range b.parts(of) {
		r.SQL(selectSeries)
		r.Keys(part, nil)
		r.SQL(";")
		r.Each(8, b.addSeries)
	}
}

func (b *batch) addSeries(row []driver.Value) error {
	place, err := b.place(row)
	if err != nil || row[2] == nil {
		return err
	}
	s := &service.Series{
		Txns: int(session.AsInt(row[3])), TxnID: uint64(session.AsInt(row[4])), Reason: service.Reason(session.Text(row[6])),
		OverrideID: uint64(session.AsInt(row[7])),
	}
	for i, instant := range map[int]*time.Time{2: &s.Began, 5: &s.TxnAt} {
		if *instant, err = session.AsInstant(row[i]); err != nil {
			return err
		}
	}
	b.ledger.Buckets[place].Series = s
	return nil
}

// writeSeries writes the series in which a txn is recorded now. The rows are locked already.
func (b *batch) writeSeries(p *session.Packet, ruling *service.Ruling) {
	for _, bucket := range b.buckets {
		s, isLonger := ruling.Series[bucket]
		if !isLonger {
			continue
		}
		p.SQL("UPDATE zone_bucket_lock SET blocked_began = ").Instant(s.Began).SQL(", blocked_txns = ").Int(int64(s.Txns)).
			SQL(", blocked_txn_id = ")
		b.txnID(p, s.TxnID)
		p.SQL(", blocked_txn_at = ").Instant(s.TxnAt).SQL(", blocked_reason = ").OrNull(string(s.Reason)).
			SQL(", blocked_override_id = ").IDOrNull(s.OverrideID).WhereBucket(bucket).SQL(";")
	}
}

// txnID writes the id of a txn of a ruling. That of a new txn follows from the id of the first one, which
// only the engine knows yet.
func (b *batch) txnID(p *session.Packet, id uint64) {
	if place, isNew := service.PlaceOf(id); isNew {
		p.SQL("LAST_INSERT_ID()+").Uint(place * b.known.idStep)
		return
	}
	p.Uint(id)
}
