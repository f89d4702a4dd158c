package db

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"

	"velocityd/service"
)

var _ service.OutcomeStore = (*Store)(nil)

// ReportAll implements service.OutcomeStore with one CALL.
func (s *Store) ReportAll(ctx context.Context, reports []service.Report) ([]error, error) {
	if len(reports) == 0 {
		return nil, nil
	}
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
	receipts := make([]error, len(reports))
	err = s.call(ctx, "report", func(rows *sql.Rows) error {
		answered := 0
		for ; rows.Next(); answered++ {
			var place int
			var status string
			if err := rows.Scan(&place, &status); err != nil {
				return err
			}
			receipts[place] = receipt(reports[place], status)
		}
		if rows.Err() == nil && answered != len(reports) {
			return fmt.Errorf("engine answered for %d of %d reports", answered, len(reports))
		}
		return rows.Err()
	}, "CALL report_outcomes(?)", string(argument))
	if err != nil {
		return nil, err
	}
	return receipts, nil
}

// receipt returns the error that a status stands for, or nil for recorded.
func receipt(report service.Report, status string) error {
	switch status {
	case "recorded":
		return nil
	case "unknown_txn":
		return fmt.Errorf("txn %d: %w", report.TxnID, service.ErrNotFound)
	case "blocked":
		return fmt.Errorf("%w: txn %d was blocked: there was no login", service.ErrConflict, report.TxnID)
	case "expired":
		return fmt.Errorf("%w: txn %d counts as a failure since its reserve_ttl", service.ErrConflict, report.TxnID)
	default:
		return fmt.Errorf("%w: txn %d has the other outcome", service.ErrConflict, report.TxnID)
	}
}
