// Package txn reads recorded attempts for people at a shell: where they come from, which are wanted, and how they are
// shown. It must not know flags, HTTP, or SQL.
package txn

import (
	"context"
	"fmt"
	"iter"
	"time"

	"velocityd/service"
	"velocityd/service/feed"
)

// Source has the history. Keys of its queries are as people write them. A *client.Client is one.
type Source interface {
	service.HistoryStore
	// Export yields all txns of a query. Without an error as the last element it was whole.
	Export(ctx context.Context, query service.HistoryQuery, principal string) iter.Seq2[service.Txn, error]
	// Follow yields txns that are recorded from now on, or behind the query's Cursor, until ctx ends.
	Follow(ctx context.Context, query service.HistoryQuery) iter.Seq2[service.Txn, error]
}

const (
	pageTimeout = 30 * time.Second // of one page, and of the record of an export
	followPause = time.Second
)

// Local is a Source over a database.
type Local struct {
	Store interface {
		service.HistoryStore
		service.ExportNoter
	}
	// RecordedKeys returns the keys under which a bucket is recorded that somebody names.
	RecordedKeys func(ctx context.Context, bucket service.Bucket) ([]string, error)
}

// History implements service.HistoryStore.
func (l Local) History(ctx context.Context, query service.HistoryQuery) (service.HistoryPage, error) {
	ctx, cancel := context.WithTimeout(ctx, pageTimeout)
	defer cancel()
	query, err := l.recorded(ctx, query)
	if err != nil {
		return service.HistoryPage{}, err
	}
	return l.Store.History(ctx, query)
}

// Export implements Source.
func (l Local) Export(ctx context.Context, query service.HistoryQuery, principal string) iter.Seq2[service.Txn, error] {
	return func(yield func(service.Txn, error) bool) {
		query.Limit = service.MaxHistoryPage
		if err := l.noteExport(ctx, &query, principal); err != nil {
			yield(service.Txn{}, err)
			return
		}
		for page, err := range service.Pages(ctx, Local{Store: l.Store}, query) {
			if err != nil {
				yield(service.Txn{}, err)
				return
			}
			for _, t := range page.Txns {
				if !yield(t, nil) {
					return
				}
			}
		}
	}
}

// noteExport records an export, with the keys as they are recorded, which it puts in the query.
func (l Local) noteExport(ctx context.Context, query *service.HistoryQuery, principal string) (err error) {
	ctx, cancel := context.WithTimeout(ctx, pageTimeout)
	defer cancel()
	if err := query.Validate(); err != nil {
		return err
	}
	if *query, err = l.recorded(ctx, *query); err != nil {
		return err
	}
	return l.Store.NoteExport(ctx, service.Export{Query: *query, Format: "command"}, principal)
}

// Follow implements Source. The error of a database that is away is the last element.
func (l Local) Follow(ctx context.Context, query service.HistoryQuery) iter.Seq2[service.Txn, error] {
	return func(yield func(service.Txn, error) bool) {
		query, err := l.recorded(ctx, query)
		if err != nil {
			yield(service.Txn{}, err)
			return
		}
		for step, err := range feed.OfTxns(l.Store, followPause).Follow(ctx, query) {
			if err != nil {
				yield(service.Txn{}, fmt.Errorf("%w; the last position was %d", err, step.Position))
				return
			}
			for _, t := range step.Items {
				if !yield(t, nil) {
					return
				}
			}
		}
	}
}

// recorded returns a query with the keys as they are recorded.
func (l Local) recorded(ctx context.Context, query service.HistoryQuery) (service.HistoryQuery, error) {
	if l.RecordedKeys == nil || len(query.Keys) == 0 || len(query.Zones) != 1 { // Validate refuses keys without a zone
		return query, nil
	}
	var keys []string
	for _, key := range query.Keys {
		forms, err := l.RecordedKeys(ctx, service.Bucket{ZoneID: query.Zones[0], Key: key})
		if err != nil {
			return query, err
		}
		keys = append(keys, forms...)
	}
	query.Keys = keys
	return query, nil
}
