package backtest

import (
	"slices"
	"time"

	"velocityd/service"
)

// Disorder is how far the instants of txns may be behind those of txns with lower ids: txns of several batches that are
// recorded at once get their ids in any order.
const Disorder = 10 * time.Second

// Order makes attempts in time order of txns that come by id. It holds those of the last Disorder.
type Order struct {
	waiting []waitingAttempt // by time and id
	newest  time.Time
}

// waitingAttempt is an attempt, and what its txns share.
type waitingAttempt struct {
	Attempt
	checkID uint64
}

// Add adds the next txn, and calls yield for each attempt that no later txn belongs to or comes before.
func (o *Order) Add(txn service.Txn, yield func(Attempt)) {
	if txn.CreatedAt.After(o.newest) {
		o.newest = txn.CreatedAt.Time
	}
	place := Place{
		Bucket: txn.Bucket, TxnID: txn.ID, WouldBlock: txn.WouldBlock, Reason: txn.Reason, UncountedAt: txn.UncountedAt.Time,
		Repeats: txn.Attempts - 1,
	}
	if !o.join(txn, place) {
		o.insert(waitingAttempt{checkID: txn.CheckID, Attempt: Attempt{
			ID: txn.ID, At: txn.CreatedAt.Time, Blocked: txn.Blocked, Outcome: txn.Outcome, Places: []Place{place},
		}})
	}
	ripe := 0
	for ripe < len(o.waiting) && o.newest.Sub(o.waiting[ripe].At) > Disorder {
		yield(o.waiting[ripe].Attempt)
		ripe++
	}
	if ripe > 0 {
		o.drop(ripe)
	}
}

// drop drops the first attempts. It moves the others only when that is cheap.
func (o *Order) drop(ripe int) {
	clear(o.waiting[:ripe])
	o.waiting = o.waiting[ripe:]
}

// join adds a place to the attempt of its check, if another txn of it came before.
func (o *Order) join(txn service.Txn, place Place) bool {
	if txn.CheckID == 0 {
		return false
	}
	for i := len(o.waiting) - 1; i >= 0 && !o.waiting[i].At.Before(txn.CreatedAt.Time); i-- {
		w := &o.waiting[i]
		if w.checkID == txn.CheckID && w.At.Equal(txn.CreatedAt.Time) {
			w.Places = append(w.Places, place)
			w.ID = min(w.ID, txn.ID)
			return true
		}
	}
	return false
}

// insert adds an attempt behind those that are not later. Most attempts come last.
func (o *Order) insert(a waitingAttempt) {
	i := len(o.waiting)
	for i > 0 && o.waiting[i-1].At.After(a.At) {
		i--
	}
	o.waiting = slices.Insert(o.waiting, i, a)
}

// Flush calls yield for the attempts that are left, when there are no more txns.
func (o *Order) Flush(yield func(Attempt)) {
	for _, w := range o.waiting {
		yield(w.Attempt)
	}
	o.waiting = nil
}
