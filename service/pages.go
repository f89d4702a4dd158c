package service

import (
	"context"
	"fmt"
	"iter"
)

// Pages yields the pages of a query, from its Cursor to the end of the history. It holds one page at a time, so its
// memory does not grow with the history. An error is the last element: that of the store, or one that says that the
// store does not go on.
func Pages(ctx context.Context, store HistoryStore, query HistoryQuery) iter.Seq2[HistoryPage, error] {
	return func(yield func(HistoryPage, error) bool) {
		for {
			page, err := store.History(ctx, query)
			if err == nil && page.Next != 0 && !query.goesOn(page.Next) {
				err = fmt.Errorf("read history behind txn %d: the next page would begin behind txn %d", query.Cursor, page.Next)
			}
			if !yield(page, err) || err != nil || page.Next == 0 {
				return
			}
			query.Cursor = page.Next
		}
	}
}

// goesOn reports whether a page that begins at next can follow one that began at the Cursor.
func (q *HistoryQuery) goesOn(next uint64) bool {
	switch {
	case len(q.Keys) > 0: // the txns of a bucket are in the order of their time
		return next != q.Cursor
	case q.Order == OldestFirst:
		return next > q.Cursor
	}
	return q.Cursor == 0 || next < q.Cursor
}

// Export is a reading of all txns of a query, which leave the service as a file or a stream.
type Export struct {
	Query HistoryQuery
	// Format is the form of the txns, such as csv.
	Format string
}

// ExportNoter records exports.
type ExportNoter interface {
	// NoteExport records an export and its caller, before the first of them leaves. principal is the name of the caller,
	// or empty. The error wraps ErrBusy if nothing was recorded, and ErrUndecided if that is not known.
	NoteExport(ctx context.Context, export Export, principal string) error
}
