package server

import (
	"context"

	"velocityd/cmd/velocityd/geoip"
	"velocityd/handlers"
	"velocityd/service"
	"velocityd/service/explain"
	"velocityd/service/zonereport"
)

// OriginReader is a Reader that tells the network and the country of the addresses in attempts and reports.
type OriginReader struct {
	handlers.Reader
	Origins *geoip.DB
}

// locate tells the origin of txns.
func (l OriginReader) addOrigins(txns ...service.Txn) []service.Txn {
	for i := range txns {
		txns[i].Origin = l.Origins.Of(txns[i].Bucket.Key)
	}
	return txns
}

// Txn implements handlers.Reader.
func (l OriginReader) Txn(ctx context.Context, id uint64) (service.Txn, error) {
	txn, err := l.Reader.Txn(ctx, id)
	return l.addOrigins(txn)[0], err
}

// History implements service.HistoryStore.
func (l OriginReader) History(ctx context.Context, query service.HistoryQuery) (service.HistoryPage, error) {
	page, err := l.Reader.History(ctx, query)
	l.addOrigins(page.Txns...)
	return page, err
}

// Checks implements service.CheckHistory.
func (l OriginReader) Checks(ctx context.Context, query service.HistoryQuery) (service.CheckPage, error) {
	page, err := l.Reader.Checks(ctx, query)
	for _, check := range page.Checks {
		l.addOrigins(check.Txns...)
	}
	return page, err
}

// Attempt implements handlers.Reader.
func (l OriginReader) Attempt(ctx context.Context, id string) (service.Recall, error) {
	recall, err := l.Reader.Attempt(ctx, id)
	l.addOrigins(recall.Txns...)
	return recall, err
}

// Peek implements handlers.Reader.
func (l OriginReader) Peek(ctx context.Context, bucket service.Bucket) (service.Peek, error) {
	peek, err := l.Reader.Peek(ctx, bucket)
	l.addOrigins(peek.Txns...)
	return peek, err
}

// Explain implements handlers.Reader.
func (l OriginReader) Explain(ctx context.Context, txnID uint64) (explain.Explanation, error) {
	x, err := l.Reader.Explain(ctx, txnID)
	x.Txn = l.addOrigins(x.Txn)[0]
	l.addOrigins(x.Counted...)
	l.addOrigins(x.Others...)
	for _, beside := range []*service.Txn{x.Previous, x.Next} {
		if beside != nil {
			*beside = l.addOrigins(*beside)[0]
		}
	}
	return x, err
}

// ZoneReport implements zonereport.Store.
func (l OriginReader) ZoneReport(
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
