package db

import (
	"context"

	"velocityd/db/history"
	"velocityd/db/records"
	"velocityd/db/totals"
	"velocityd/service"
	"velocityd/service/zonereport"
)

var _ zonereport.Store = (*Store)(nil)

// ZoneReport implements zonereport.Store.
func (s *Store) ZoneReport(
	ctx context.Context, zone service.Zone, query zonereport.Query,
) (zonereport.Report, error) {
	return zonereport.Make(ctx, zone, query, struct {
		*records.Tables
		*history.Reader
		*totals.Store
	}{s.Records, s.History, s.Totals})
}
