package service

import (
	"cmp"
	"context"
	"slices"
)

// RecordedCheck is a check as the history has it: the txns of all its buckets, and the decision that they add up to.
type RecordedCheck struct {
	// CheckID is that of the txns. It is 0 for a check of one bucket.
	CheckID   uint64  `json:"check_id,string,omitzero"`
	CreatedAt Instant `json:"created_at"`
	Blocked   bool    `json:"blocked"`
	// WouldBlock says that one of the buckets had no room, whether or not its zone was enforced. Reason is the reason of
	// the first such bucket.
	WouldBlock bool   `json:"would_block"`
	Reason     Reason `json:"reason,omitzero"`
	// Outcome is how the login ended. A report may name one txn of several, so it is that of the first txn with one.
	Outcome   Outcome `json:"outcome,omitzero"`
	AttemptID string  `json:"attempt_id,omitzero"`
	// Attempts is 1, and more where the txns stand for later blocked attempts, too: see Txn.Attempts. LastAt is the time
	// of the newest of them.
	Attempts int     `json:"attempts"`
	LastAt   Instant `json:"last_at"`
	// LeftOut says that the check named buckets in zones that the caller may not see. They are not among Txns.
	LeftOut bool `json:"left_out,omitzero"`
	// Txns are those of all buckets, in the order of their zones. There is at least one.
	Txns []Txn `json:"txns"`
}

// Decider returns the txn that decided: the first whose bucket had no room, or the first of all.
func (c RecordedCheck) Decider() Txn {
	return c.Txns[max(0, slices.IndexFunc(c.Txns, func(t Txn) bool { return t.WouldBlock }))]
}

// Seen returns the check as a caller sees it that may see some zones alone.
func (c RecordedCheck) Seen(maySee func(zoneID int64) bool) RecordedCheck {
	seen := slices.DeleteFunc(slices.Clone(c.Txns), func(t Txn) bool { return !maySee(t.ZoneID) })
	return RecordedCheck{Txns: seen}.summed(len(seen) < len(c.Txns))
}

// summed fills all members but Txns, of which there are some.
func (c RecordedCheck) summed(leftOut bool) RecordedCheck {
	c.LeftOut = leftOut
	for i, t := range c.Txns {
		if i == 0 {
			c.CheckID, c.CreatedAt, c.AttemptID, c.LastAt = t.CheckID, t.CreatedAt, t.AttemptID, t.LastAt
		}
		c.Blocked = c.Blocked || t.Blocked
		if t.WouldBlock && !c.WouldBlock {
			c.WouldBlock, c.Reason = true, t.Reason
		}
		c.Outcome = cmp.Or(c.Outcome, t.Outcome)
		c.Attempts = max(c.Attempts, t.Attempts)
		if t.LastAt.After(c.LastAt.Time) {
			c.LastAt = t.LastAt
		}
	}
	if c.Reason == "" && len(c.Txns) > 0 {
		c.Reason = c.Txns[0].Reason // a bucket that the caller may not see had no room
	}
	return c
}

// CheckPage is a part of the history, check by check.
type CheckPage struct {
	Checks []RecordedCheck `json:"checks"`
	// Next and ScannedUntil are those of HistoryPage.
	Next         uint64  `json:"next,string,omitzero"`
	ScannedUntil Instant `json:"scanned_until,omitzero"`
}

// CheckPage returns the checks of the txns of a page, in their order. all has the txns of these checks, also those of
// the page or not. A check that a page before has shown, by another txn that passes the filters, is left out: so no
// check is on two pages.
func (q *HistoryQuery) CheckPage(page HistoryPage, all []Txn) CheckPage {
	checks := CheckPage{Checks: []RecordedCheck{}, Next: page.Next, ScannedUntil: page.ScannedUntil}
	places, isShown := map[CheckKey]int{}, map[int]bool{}
	for _, t := range slices.Concat(page.Txns, all) {
		place, isKnown := places[t.Check()]
		if !isKnown {
			place = len(checks.Checks)
			places[t.Check()], checks.Checks = place, append(checks.Checks, RecordedCheck{})
		}
		c := &checks.Checks[place]
		c.Txns = append(c.Txns, t)
		isBefore := q.Cursor != 0 && (t.ID == q.Cursor || (t.ID > q.Cursor) == (q.Order == NewestFirst))
		isShown[place] = isShown[place] || isBefore && len(q.Keys) == 0 && q.Matches(t)
	}
	place := -1
	checks.Checks = slices.DeleteFunc(checks.Checks, func(RecordedCheck) bool { place++; return isShown[place] })
	for i, c := range checks.Checks {
		slices.SortFunc(c.Txns, func(x, y Txn) int {
			return cmp.Or(cmp.Compare(x.Bucket.ZoneID, y.Bucket.ZoneID), cmp.Compare(x.ID, y.ID))
		})
		c.Txns = slices.CompactFunc(c.Txns, func(x, y Txn) bool { return x.ID == y.ID })
		checks.Checks[i] = c.summed(false)
	}
	return checks
}

// CheckHistory reads recorded checks page by page.
type CheckHistory interface {
	// Checks returns one page of the checks that have a txn which passes the filters, each with all its txns. A page has
	// query.Limit checks at most, and looks at MaxHistoryScan txns at most. Errors are those of HistoryStore.
	Checks(ctx context.Context, query HistoryQuery) (CheckPage, error)
}
