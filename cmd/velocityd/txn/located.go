package txn

import (
	"context"
	"iter"

	"velocityd/service"
)

// Located is a Source whose txns have their origins.
type Located struct {
	Source
	// Of returns the origin of a bucket key, or nil.
	Of func(key string) *service.Origin
}

// History implements service.HistoryStore.
func (l Located) History(ctx context.Context, query service.HistoryQuery) (service.HistoryPage, error) {
	page, err := l.Source.History(ctx, query)
	for i := range page.Txns {
		page.Txns[i].Origin = l.Of(page.Txns[i].Bucket.Key)
	}
	return page, err
}

// Export implements Source.
func (l Located) Export(ctx context.Context, query service.HistoryQuery, principal string) iter.Seq2[service.Txn, error] {
	return l.each(l.Source.Export(ctx, query, principal))
}

// Follow implements Source.
func (l Located) Follow(ctx context.Context, query service.HistoryQuery) iter.Seq2[service.Txn, error] {
	return l.each(l.Source.Follow(ctx, query))
}

// each yields txns with their origins.
func (l Located) each(txns iter.Seq2[service.Txn, error]) iter.Seq2[service.Txn, error] {
	return func(yield func(service.Txn, error) bool) {
		for t, err := range txns {
			if err == nil {
				t.Origin = l.Of(t.Bucket.Key)
			}
			if !yield(t, err) {
				return
			}
		}
	}
}
