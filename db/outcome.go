package db

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"

	"velocityd/db/session"
	"velocityd/service"
)

var _ service.OutcomeStore = (*Store)(nil)

// ReportAll implements service.OutcomeStore: with one CALL, or by statements where the engine has
// no procedures.
func (s *Store) ReportAll(ctx context.Context, reports []service.Report) ([]error, error) {
	if len(reports) == 0 {
		return nil, nil
	}
	engine, err := s.engine(ctx)
	if err != nil {
		return nil, err
	}
	report := s.settleAll
	if engine.HasRoutines() {
		report = s.callReport
	}
	statuses, err := report(ctx, reports)
	if err != nil {
		return nil, err
	}
	receipts := make([]error, len(reports))
	for i, status := range statuses {
		receipts[i] = status.Err(reports[i])
	}
	return receipts, nil
}

// callReport is CALL report_outcomes.
func (s *Store) callReport(ctx context.Context, reports []service.Report) ([]service.ReportStatus, error) {
	type report struct {
		TxnID   uint64          `json:"txn_id"`
		Outcome service.Outcome `json:"outcome"`
	}
	list := make([]report, len(reports))
	for i, r := range reports {
		list[i] = report{TxnID: r.TxnID, Outcome: r.Outcome}
	}
	argument, err := json.Marshal(list)
	if err != nil {
		return nil, fmt.Errorf("encode %d reports: %w", len(reports), err)
	}
	statuses := make([]service.ReportStatus, len(reports))
	err = s.call(ctx, "report", func(rows *sql.Rows) error {
		answered := 0
		for ; rows.Next(); answered++ {
			var place int
			var status service.ReportStatus
			var told report
			if err := rows.Scan(&place, &status, &told.TxnID, &told.Outcome); err != nil {
				return err
			}
			if place != answered || place >= len(reports) || told != list[place] {
				return session.ErrMisfit
			}
			statuses[place] = status
		}
		if rows.Err() == nil && answered != len(reports) {
			return session.ErrMisfit
		}
		return rows.Err()
	}, "CALL report_outcomes(?)", string(argument))
	return statuses, err
}
