package db

import (
	"context"
	"errors"

	"velocityd/service"
	"velocityd/service/zonereport"
)

var _ zonereport.Store = (*Store)(nil)

// ZoneReport implements zonereport.Store.
func (s *Store) ZoneReport(
	ctx context.Context, zone service.Zone, query zonereport.Query,
) (zonereport.Report, error) {
	report, err := s.History.ZoneReport(ctx, zone, query)
	if err != nil {
		return zonereport.Report{}, err
	}
	totals, err := s.Totals.ZoneTotals(ctx, zone.ID,
		service.TotalsQuery{Since: report.Since, Until: report.Until, By: service.SpanHour})
	switch {
	case errors.Is(err, service.ErrNotFound): // the zone is gone
		return report, nil
	case err != nil:
		return zonereport.Report{}, err
	}
	return report.WithTotals(totals), nil
}
