package server

import (
	"context"

	"velocityd/cmd/velocityd/geoip"
	"velocityd/handlers"
	"velocityd/service"
	"velocityd/service/explain"
	"velocityd/service/zonereport"
)

// Locating is a Reader that tells the network and the country of the addresses in attempts and reports.
type Locating struct {
	handlers.Reader
	Origins *geoip.DB
}

// locate tells the origin of txns.
func (l Locating) locate(txns ...service.Txn) []service.Txn {
	for i := range txns {
		txns[i].Origin = l.Origins.Of(txns[i].Bucket.Key)
	}
	return txns
}

// Txn implements handlers.Reader.
func (l Locating) Txn(ctx context.Context, id uint64) (service.Txn, error) {
	txn, err := l.Reader.Txn(ctx, id)
	return l.locate(txn)[0], err
}

// History implements service.HistoryStore.
func (l Locating) History(ctx context.Context, query service.HistoryQuery) (service.HistoryPage, error) {
	page, err := l.Reader.History(ctx, query)
	l.locate(page.Txns...)
	return page, err
}

// Checks implements service.CheckHistory.
func (l Locating) Checks(ctx context.Context, query service.HistoryQuery) (service.CheckPage, error) {
	page, err := l.Reader.Checks(ctx, query)
	for _, check := range page.Checks {
		l.locate(check.Txns...)
	}
	return page, err
}

// Attempt implements handlers.Reader.
func (l Locating) Attempt(ctx context.Context, id string) (service.Recall, error) {
	recall, err := l.Reader.Attempt(ctx, id)
	l.locate(recall.Txns...)
	return recall, err
}

// Peek implements handlers.Reader.
func (l Locating) Peek(ctx context.Context, bucket service.Bucket) (service.Peek, error) {
	peek, err := l.Reader.Peek(ctx, bucket)
	l.locate(peek.Txns...)
	return peek, err
}

// Explain implements handlers.Reader.
func (l Locating) Explain(ctx context.Context, txnID uint64) (explain.Explanation, error) {
	x, err := l.Reader.Explain(ctx, txnID)
	x.Txn = l.locate(x.Txn)[0]
	l.locate(x.Counted...)
	l.locate(x.Others...)
	for _, beside := range []*service.Txn{x.Previous, x.Next} {
		if beside != nil {
			*beside = l.locate(*beside)[0]
		}
	}
	return x, err
}

// ZoneReport implements zonereport.Store.
func (l Locating) ZoneReport(
	ctx context.Context, zone service.Zone, query zonereport.Query,
) (zonereport.Report, error) {
	report, err := l.Reader.ZoneReport(ctx, zone, query)
	if err != nil {
		return report, err
	}
	report.Origins = map[string]service.Origin{}
	for _, key := range report.AllKeys() {
		if o := l.Origins.Of(key); o != nil {
			report.Origins[key] = *o
		}
	}
	return report, nil
}
