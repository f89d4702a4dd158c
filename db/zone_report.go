package db

import (
	"context"
	"errors"

	"velocityd/service"
)

var _ service.ZoneReportStore = (*Store)(nil)

// ZoneReport implements service.ZoneReportStore.
func (s *Store) ZoneReport(
	ctx context.Context, zone service.Zone, query service.ZoneReportQuery,
) (service.ZoneReport, error) {
	report, err := s.History.ZoneReport(ctx, zone, query)
	if err != nil {
		return service.ZoneReport{}, err
	}
	totals, err := s.Totals.ZoneTotals(ctx, zone.ID,
		service.TotalsQuery{Since: report.Since, Until: report.Until, By: service.SpanHour})
	switch {
	case errors.Is(err, service.ErrNotFound): // the zone is gone
		return report, nil
	case err != nil:
		return service.ZoneReport{}, err
	}
	return report.WithTotals(totals), nil
}
