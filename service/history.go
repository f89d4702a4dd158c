package service

import (
	"context"
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

// HistoryOrder is the order of the txns of a page, by their ids.
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
	// Outcome, if it is not nil, is that of the txns. An empty one stands for txns that nobody has reported on.
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
	Txns []Txn
	// Next is the Cursor of the following page, the id of the last txn that was looked at. 0 says that there is no
	// following page; an ascending reader goes on with its last cursor later.
	Next uint64
	// ScannedUntil is the instant of the last txn that was looked at, or the zero time if there was none.
	ScannedUntil time.Time
}

// HistoryStore reads recorded attempts page by page. Its pages are stable: txns that are recorded meanwhile move no
// others from one page to the next.
type HistoryStore interface {
	// History returns one page. It looks at MaxHistoryScan txns at most. The error wraps ErrInvalid for a query with
	// keys and not one zone, and ErrBusy if the engine is away.
	History(ctx context.Context, query HistoryQuery) (HistoryPage, error)
}
