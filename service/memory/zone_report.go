package memory

import (
	"context"
	"time"

	"velocityd/service"
	"velocityd/service/zonereport"
)

// ZoneReport implements zonereport.Store.
func (m *Store) ZoneReport(
	ctx context.Context, zone service.Zone, query zonereport.Query,
) (zonereport.Report, error) {
	report, err := m.reportOfTxns(zone, query)
	if err != nil {
		return zonereport.Report{}, err
	}
	totals, err := m.ZoneTotals(
		ctx, zone.ID, service.TotalsQuery{Since: report.Since, Until: report.Until, By: service.SpanHour})
	if err != nil {
		return zonereport.Report{}, err
	}
	return report.WithTotals(totals), nil
}

// reportOfTxns returns the report that the txns make.
func (m *Store) reportOfTxns(zone service.Zone, query zonereport.Query) (zonereport.Report, error) {
	reporter, err := zonereport.NewReporter(zone, query)
	if err != nil {
		return zonereport.Report{}, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	for i := len(m.txns) - 1; i >= 0; i-- {
		if !reporter.Add(m.txns[i].Txn) {
			break
		}
	}
	var kept time.Time
	if len(m.txns) > 0 {
		kept = m.txns[0].CreatedAt.Time
	}
	return reporter.Report(kept), nil
}
