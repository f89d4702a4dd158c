package db

import (
	"context"

	"velocityd/service"
)

var _ service.OutcomeStore = (*Store)(nil)

// ReportAll implements service.OutcomeStore: with one CALL, or by statements where the engine has
// no procedures.
func (s *Store) ReportAll(ctx context.Context, reports []service.Report) ([]error, error) {
	if len(reports) == 0 {
		return nil, nil
	}
	d, err := s.dialect(ctx)
	if err != nil {
		return nil, err
	}
	statuses, err := d.report(ctx, s, reports)
	if err != nil {
		return nil, err
	}
	receipts := make([]error, len(reports))
	for i, status := range statuses {
		receipts[i] = status.Err(reports[i])
	}
	return receipts, nil
}
