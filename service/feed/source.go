package feed

import (
	"context"
	"iter"
	"time"

	"velocityd/service"
	"velocityd/service/event"
)

// Txns follows recorded attempts.
type Txns struct{ feed *Feed[service.Txn] }

// OfTxns returns a feed of the txns of a store, which it asks again after pause.
func OfTxns(store service.HistoryStore, pause time.Duration) Txns {
	return Txns{New(txns{store}, pause)}
}

// Follow is Feed.Follow with the filters and the Cursor of a query. It looks at no bound of time, Order and Limit.
func (t Txns) Follow(ctx context.Context, query service.HistoryQuery) iter.Seq2[Step[service.Txn], error] {
	query.Since, query.Until = time.Time{}, time.Time{}
	return t.feed.Follow(ctx, query.Cursor, query.Matches)
}

type txns struct{ store service.HistoryStore }

// Newest implements Source.
func (s txns) Newest(ctx context.Context) (uint64, error) {
	newest, err := s.store.History(ctx, service.HistoryQuery{Order: service.NewestFirst, Limit: 1})
	if err != nil || len(newest.Txns) == 0 {
		return 0, err
	}
	return newest.Txns[0].ID, nil
}

// After implements Source.
func (s txns) After(ctx context.Context, id uint64) ([]service.Txn, bool, error) {
	page, err := s.store.History(
		ctx, service.HistoryQuery{Order: service.OldestFirst, Cursor: id, Limit: service.MaxHistoryPage})
	return page.Txns, page.Next != 0, err
}

// ID implements Source.
func (txns) ID(txn service.Txn) uint64 { return txn.ID }

// Events follows events.
type Events struct{ feed *Feed[event.Event] }

// OfEvents returns a feed of the events of a store, which it asks again after pause.
func OfEvents(store event.Store, pause time.Duration) Events {
	return Events{New(events{store}, pause)}
}

// Follow is Feed.Follow with the filters and the Cursor of a query. It looks at no Order and Limit.
func (e Events) Follow(ctx context.Context, query event.Query) iter.Seq2[Step[event.Event], error] {
	return e.feed.Follow(ctx, query.Cursor, query.Matches)
}

type events struct{ store event.Store }

// Newest implements Source.
func (s events) Newest(ctx context.Context) (uint64, error) {
	newest, err := s.store.Events(ctx, event.Query{Order: service.NewestFirst, Limit: 1})
	if err != nil || len(newest.Events) == 0 {
		return 0, err
	}
	return newest.Events[0].ID, nil
}

// After implements Source.
func (s events) After(ctx context.Context, id uint64) ([]event.Event, bool, error) {
	page, err := s.store.Events(ctx, event.Query{Order: service.OldestFirst, Cursor: id, Limit: event.MaxPage})
	return page.Events, page.Next != 0, err
}

// ID implements Source.
func (events) ID(e event.Event) uint64 { return e.ID }
