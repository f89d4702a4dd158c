package service

import "time"

// Filled is a bucket whose last place was taken.
type Filled struct {
	Bucket Bucket
	// Until is when the next place opens, unless one is given back before.
	Until time.Time
	// TxnID is the id of the txn that took the place, or its place: see PlaceOf.
	TxnID uint64
}

// fill notes that the attempt of a verdict, which was charged, has taken the last place of its bucket. The next such attempt
// comes after a place has opened, so a bucket is told once each time that it becomes full.
func (d *decider) fill(v Verdict, a *account) {
	if a.zone.FullEvents && a.velocity >= a.rate {
		d.ruling.Filled = append(d.ruling.Filled, Filled{v.Bucket, a.term.Until(a.oldest), v.TxnID})
	}
}
