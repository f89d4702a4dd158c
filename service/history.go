package service

import (
	"context"
	"iter"
	"slices"
	"time"
)

const (
	// MaxHistoryPage is the most txns that one page of history holds.
	MaxHistoryPage = 1000
	// MaxHistoryScan is the most txns that one page looks at, whether or not they match. So a page has a bounded price,
	// however few txns of a long history match.
	MaxHistoryScan = 20_000
	// HistoryLag is how far behind the engine's clock ascending pages end. Txns are committed a little after their
	// instant, and not in the order of their ids: a reader that went on after the newest one would miss those.
	HistoryLag = 5 * time.Second
)

// HistoryOrder is the order of the txns of a page: by their ids, and those of one bucket by their time and ids.
type HistoryOrder string

// The orders of history.
const (
	NewestFirst HistoryOrder = "desc"
	OldestFirst HistoryOrder = "asc"
)

// HistoryQuery asks for recorded attempts. The zero value of a filter lets all txns pass.
type HistoryQuery struct {
	// Zones are the zones of the txns. An empty list means all zones.
	Zones []int64
	// Keys are the forms of one bucket's key, as they are recorded: one, and one for each further secret key of
	// pseudonyms. Keys need exactly one zone.
	Keys []string
	// Blocked and WouldBlock, if they are not nil, are those of the txns.
	Blocked, WouldBlock *bool
	// Outcome, if it is not nil, is that of the txns. An empty one stands for txns without a report.
	Outcome   *Outcome
	AttemptID string
	// Since is the first instant of the interval, and Until the first one behind it. The zero time sets no bound.
	Since, Until time.Time
	Order        HistoryOrder
	// Cursor is the id of a txn, from which on the page looks, without that txn itself: at lower ids if the newest come
	// first, and otherwise at higher ones. 0 begins at the end of the history to which Order points.
	Cursor uint64
	// Limit is how many txns the page may hold, 1 to MaxHistoryPage.
	Limit int
}

// Validate returns an ErrInvalid that names the field, or nil.
func (q *HistoryQuery) Validate() error {
	switch {
	case len(q.Keys) > 0 && len(q.Zones) != 1:
		return NewFieldError("key", "needs the one zone that it belongs to")
	case q.Order != NewestFirst && q.Order != OldestFirst:
		return NewFieldError("order", "must be desc or asc")
	case q.Limit < 1 || q.Limit > MaxHistoryPage:
		return NewFieldError("limit", "must be 1 to %d", MaxHistoryPage)
	case !q.Until.IsZero() && !q.Since.Before(q.Until):
		return NewFieldError("until", "must be later than since")
	}
	return validateAttemptID(q.AttemptID)
}

// Page returns the page that a walk over the history gives. The walk yields the txns behind Cursor in the order of
// the query, as far as that reaches. Page ends it when the page is full, or when it has looked at MaxHistoryScan txns.
func (q *HistoryQuery) Page(walk iter.Seq2[Txn, error]) (HistoryPage, error) {
	return q.page(walk, func(Txn) bool { return true })
}

// PageOfChecks is Page with the txns of Limit checks.
func (q *HistoryQuery) PageOfChecks(walk iter.Seq2[Txn, error]) (HistoryPage, error) {
	known := map[CheckKey]bool{}
	return q.page(walk, func(t Txn) bool {
		isNew := !known[t.Check()]
		known[t.Check()] = true
		return isNew
	})
}

// page is Page. Of the txns that match, those count towards Limit of which isNew says so.
func (q *HistoryQuery) page(walk iter.Seq2[Txn, error], isNew func(Txn) bool) (HistoryPage, error) {
	page := HistoryPage{Last: q.Cursor}
	looked, held := 0, 0
	for t, err := range walk {
		if err != nil {
			return HistoryPage{}, err
		}
		if looked == MaxHistoryScan || held == q.Limit {
			page.Next = page.Last
			return page, nil
		}
		looked++
		page.Last, page.ScannedUntil = t.ID, t.CreatedAt
		if q.Matches(t) {
			page.Txns = append(page.Txns, t)
			if isNew(t) {
				held++
			}
		}
	}
	return page, nil
}

// Matches reports whether a txn passes all filters. It does NOT look at Cursor and Limit.
func (q *HistoryQuery) Matches(t Txn) bool {
	return (len(q.Zones) == 0 || slices.Contains(q.Zones, t.Bucket.ZoneID)) &&
		(len(q.Keys) == 0 || slices.Contains(q.Keys, t.Bucket.Key)) &&
		(q.Blocked == nil || *q.Blocked == t.Blocked) &&
		(q.WouldBlock == nil || *q.WouldBlock == t.WouldBlock) &&
		(q.Outcome == nil || *q.Outcome == t.Outcome) &&
		(q.AttemptID == "" || q.AttemptID == t.AttemptID) &&
		!t.CreatedAt.Before(q.Since) &&
		(q.Until.IsZero() || t.CreatedAt.Before(q.Until))
}

// HistoryPage is a part of the history.
type HistoryPage struct {
	Txns []Txn `json:"txns"`
	// Next is the Cursor of the following page, the id of the last txn that was looked at. 0 says that there is no
	// following page.
	Next uint64 `json:"next,string,omitzero"`
	// Last is the id of the last txn that was looked at, or the query's Cursor if there was none. A reader that follows
	// the history, the oldest first, goes on from it later.
	Last uint64 `json:"last,string,omitzero"`
	// ScannedUntil is the instant of the last txn that was looked at, or the zero time if there was none.
	ScannedUntil Instant `json:"scanned_until,omitzero"`
}

// HistoryStore reads recorded attempts page by page. Its pages are stable: txns that are recorded meanwhile move no
// others from one page to the next.
type HistoryStore interface {
	// History returns one page. It looks at MaxHistoryScan txns at most. Of the txns of one bucket, and of those of all
	// buckets, ids grow with time; a clock that is set back changes that for some. The error wraps ErrInvalid for a
	// query that is not valid, and ErrBusy if the engine is away.
	History(ctx context.Context, query HistoryQuery) (HistoryPage, error)
}
