package db

import (
	"context"
	"fmt"

	"velocityd/service"
)

var _ service.OutcomeStore = (*Store)(nil)

// ReportAll implements service.OutcomeStore: with one CALL, or by statements where the engine has
// no procedures. Reports by attempt id cost one look-up more.
func (s *Store) ReportAll(ctx context.Context, reports []service.Report) ([]error, error) {
	if len(reports) == 0 {
		return nil, nil
	}
	d, err := s.dialect(ctx)
	if err != nil {
		return nil, err
	}
	receipts := make([]error, len(reports))
	named, places, err := s.byTxn(ctx, reports, receipts)
	if err != nil {
		return nil, err
	}
	if len(named) == 0 {
		return receipts, nil
	}
	statuses, err := d.report(ctx, s, named)
	if err != nil {
		return nil, err
	}
	for i, status := range statuses {
		receipts[places[i]] = status.Err(reports[places[i]])
	}
	return receipts, nil
}

// byTxn returns the reports with a txn of the check in the place of each attempt id, and their places in reports.
// A report whose attempt is not remembered is left out, and its error is in receipts.
func (s *Store) byTxn(
	ctx context.Context, reports []service.Report, receipts []error,
) (named []service.Report, places []int, err error) {
	var ids []string
	for _, r := range reports {
		if r.AttemptID != "" {
			ids = append(ids, r.AttemptID)
		}
	}
	remembered, err := s.History.Attempts(ctx, ids)
	if err != nil {
		return nil, nil, fmt.Errorf("look up the attempts of %d reports: %w", len(ids), err)
	}
	for i, r := range reports {
		if r.AttemptID != "" {
			attempt, err := service.OneAttempt(remembered[r.AttemptID])
			if err != nil {
				receipts[i] = err
				continue
			}
			r = service.Report{TxnID: attempt.Decision.TxnID(), Outcome: r.Outcome}
		}
		named, places = append(named, r), append(places, i)
	}
	return named, places, nil
}
