package service

import "time"

// longestSeries bounds how long a series of blocked attempts lasts, so that the retention of txns keeps
// the txn that still counts, and no txn stands for more than a day.
const longestSeries = 24 * time.Hour

// Series is a series of blocked attempts of one bucket, in a zone that records the first RecordBlocked of
// them as txns, and then counts.
type Series struct {
	Began time.Time
	Txns  int // that were recorded
	// TxnID, TxnAt, Reason and OverrideID belong to the last of these txns, which counts the attempts like
	// it. See PlaceOf.
	TxnID      uint64
	TxnAt      time.Time
	Reason     Reason
	OverrideID uint64
}

// HasSeries says that later blocked attempts of a bucket are counted by txns of earlier ones.
func (z Zone) HasSeries() bool { return z.RecordBlocked > 0 }

// Repeats are blocked attempts that come to those which a txn counts already.
type Repeats struct {
	Bucket Bucket
	TxnID  uint64
	TxnAt  time.Time // when the txn was recorded
	Count  int
}

// firstPlace stands in a ruling for the id of Ruling.Txns[0], firstPlace+1 for that of Txns[1], and so on.
// The ids that engines give are below it.
const firstPlace = 1 << 63

// PlaceOf says whether a txn id in a ruling means a txn of Ruling.Txns, which has no id before it is
// recorded, and returns the place of that txn. Any other id belongs to a txn that was recorded before.
func PlaceOf(txnID uint64) (place uint64, isNew bool) { return txnID - firstPlace, txnID >= firstPlace }

// isOver says that an attempt at now begins another series, because a txn of the beginning would not count any
// more. A clock that was set back ends a series, too.
func (s *Series) isOver(now time.Time, term Term) bool {
	return s == nil || now.Before(s.TxnAt) || now.Sub(s.Began) >= longestSeries || !s.Began.After(term.Since(now))
}

// blocked returns the id of the txn that records or counts a blocked attempt. An attempt that has not the
// reason of the last txn gets its own, so that no txn tells a false reason, and each lockout's
// beginning has a txn.
func (d *decider) blocked(i int, live *liveBucket, txn Txn) uint64 {
	s := Series{Began: d.now}
	if !live.series.isOver(d.now, live.term) {
		s = *live.series
	}
	if s.Txns >= live.zone.RecordBlocked && s.Reason == txn.Reason && s.OverrideID == txn.OverrideID {
		d.repeated(live, txn.Bucket)
		return s.TxnID
	}
	s.Txns++
	s.TxnID, s.TxnAt, s.Reason, s.OverrideID = d.add(i, txn), d.now, txn.Reason, txn.OverrideID
	live.series, live.repeats = &s, 0
	if d.ruling.Series == nil {
		d.ruling.Series = map[Bucket]Series{}
	}
	d.ruling.Series[txn.Bucket] = s
	return s.TxnID
}

// repeated counts an attempt in the last txn of a series.
func (d *decider) repeated(live *liveBucket, bucket Bucket) {
	if place, isNew := PlaceOf(live.series.TxnID); isNew {
		d.ruling.Txns[place].Attempts++
		return
	}
	if live.repeats == 0 {
		d.ruling.Repeats = append(d.ruling.Repeats,
			Repeats{Bucket: bucket, TxnID: live.series.TxnID, TxnAt: live.series.TxnAt})
		live.repeats = len(d.ruling.Repeats)
	}
	d.ruling.Repeats[live.repeats-1].Count++
}
