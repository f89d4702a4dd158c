package history

import (
	"context"
	"fmt"
	"slices"

	"velocityd/db/session"
	"velocityd/service"
)

const (
	// reportRows is the most rows that one statement of a report reads.
	reportRows = 20_000
	// reportColumns are those of a reportRow.
	reportColumns = "id, created_at, zone_id, bucket_key, blocked, would_block, counted, COALESCE(outcome, '') AS outcome, " +
		"COALESCE(check_id, 0) AS check_id, 1 + COALESCE(repeats, 0) AS attempts, COALESCE(repeated_at, created_at) AS last_at"
)

const selectReport = `
SELECT ` + reportColumns + `
  FROM zone_txn FORCE INDEX (PRIMARY)
 WHERE id BETWEEN ? AND ?
   AND created_at BETWEEN ? AND ?
 ORDER BY id
 LIMIT ?`

var _ service.ZoneReportStore = (*Reader)(nil)

// ZoneReport implements service.ZoneReportStore. It reads the primary key in parts of some thousand ids, from the newest
// of the query's time on, and holds one part at a time.
func (r *Reader) ZoneReport(ctx context.Context, zone service.Zone, query service.ZoneReportQuery) (service.ZoneReport, error) {
	reporter, err := service.NewZoneReporter(zone, query)
	if err != nil {
		return service.ZoneReport{}, err
	}
	low, high, err := r.IDsOf(ctx, query.Since, query.Until)
	if err != nil {
		return service.ZoneReport{}, err
	}
	within := times{query.Since, query.Until}
	for width := uint64(reportRows); high >= low && high > 0; {
		from := max(low, high-min(high, width)+1)
		rows, err := r.readReport(ctx, from, high, within)
		if err != nil {
			return service.ZoneReport{}, err
		}
		if len(rows) > reportRows && width > 1 { // ids were sparse, and are dense here
			width = max(1, width/8)
			continue
		}
		for _, row := range slices.Backward(rows) {
			if !reporter.Add(row.row()) {
				return reporter.Report(), nil
			}
		}
		if len(rows) < reportRows/4 {
			width *= 2
		}
		high = from - 1
	}
	return reporter.Report(), nil
}

// reportRow is a row of zone_txn as a report reads it.
type reportRow struct {
	txnRow
	CheckID uint64 `db:"check_id"`
}

func (r reportRow) row() service.ZoneReportRow {
	return service.ZoneReportRow{Txn: r.txn(), CheckID: r.CheckID}
}

// readReport returns the txns with these ids that may be of a time, by id. More than reportRows say that there are more.
func (r *Reader) readReport(ctx context.Context, low, high uint64, within times) (rows []reportRow, err error) {
	since, until := r.timesOf(ctx, low, high).and(within).bounds()
	isAsked := func(row reportRow) bool { return low <= row.ID && row.ID <= high }
	rows, err = session.SelectFitting(ctx, r.pool, isAsked, selectReport, low, high, since, until, reportRows+1)
	if err != nil {
		return nil, fmt.Errorf("read txns %d to %d for a report: %w", low, high, session.LookupError(err))
	}
	return rows, nil
}
