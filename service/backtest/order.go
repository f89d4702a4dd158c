package backtest

import (
	"slices"
	"time"

	"velocityd/service"
)

// Row is one recorded txn: a place of an attempt. CheckID and Buckets are 0 for an attempt in one bucket; otherwise its
// txns share CheckID, and there are Buckets of them.
type Row struct {
	At      time.Time
	CheckID uint64
	Buckets int
	Blocked bool
	Outcome service.Outcome
	Place   Place
}

// Disorder is how far the instants of txns may be behind those of txns with lower ids: txns of several batches that are
// recorded at once get their ids in any order.
const Disorder = 10 * time.Second

// Order makes attempts in time order of rows that come by id. It holds those of the last Disorder.
type Order struct {
	waiting []waitingAttempt // by time and id
	newest  time.Time
}

// waitingAttempt is an attempt, and what its rows share.
type waitingAttempt struct {
	Attempt
	checkID uint64
}

// Add adds the next row, and calls yield for each attempt that no later row belongs to or comes before.
func (o *Order) Add(row Row, yield func(Attempt)) {
	if row.At.After(o.newest) {
		o.newest = row.At
	}
	if !o.join(row) {
		o.insert(waitingAttempt{checkID: row.CheckID, Attempt: Attempt{
			ID: row.Place.TxnID, At: row.At, Blocked: row.Blocked, Outcome: row.Outcome,
			Places: append(make([]Place, 0, max(row.Buckets, 1)), row.Place),
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

// join adds a row to the attempt of its check, if another row of it came before.
func (o *Order) join(row Row) bool {
	if row.CheckID == 0 {
		return false
	}
	for i := len(o.waiting) - 1; i >= 0 && !o.waiting[i].At.Before(row.At); i-- {
		w := &o.waiting[i]
		if w.checkID == row.CheckID && w.At.Equal(row.At) {
			w.Places = append(w.Places, row.Place)
			w.ID = min(w.ID, row.Place.TxnID)
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

// Flush calls yield for the attempts that are left, when there are no more rows.
func (o *Order) Flush(yield func(Attempt)) {
	for _, w := range o.waiting {
		yield(w.Attempt)
	}
	o.waiting = nil
}
