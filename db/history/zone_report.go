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
	// reportWidth is the most ids that one statement of a report goes over, where most txns are of other zones.
	reportWidth = 500_000
	// reportColumns are those of a reportRow.
	reportColumns = "id, created_at, zone_id, bucket_key, blocked, would_block, counted, COALESCE(outcome, '') AS outcome, " +
		"COALESCE(check_id, 0) AS check_id, 1 + COALESCE(repeats, 0) AS attempts, COALESCE(repeated_at, created_at) AS last_at"
)

// selectReport returns the statement that reads txns of some zones. There is no index by zone and time, which each check would
// have to write: the engine passes over the txns of other zones.
func selectReport(zones int) string {
	return `
SELECT ` + reportColumns + `
  FROM zone_txn FORCE INDEX (PRIMARY)
 WHERE id BETWEEN ? AND ?
   AND created_at BETWEEN ? AND ?
   AND zone_id IN (` + placeholders(zones) + `)
 ORDER BY id
 LIMIT ?`
}

var _ service.ZoneReportStore = (*Reader)(nil)

// ZoneReport implements service.ZoneReportStore. It reads the primary key in parts of some thousand ids, from the newest
// of the query's time on, and holds one part at a time.
func (r *Reader) ZoneReport(ctx context.Context, zone service.Zone, query service.ZoneReportQuery) (service.ZoneReport, error) {
	reporter, err := service.NewZoneReporter(zone, query)
	if err != nil {
		return service.ZoneReport{}, err
	}
	query = query.WithDefaults()
	low, high, err := r.IDsOf(ctx, query.Since, query.Until)
	if err != nil {
		return service.ZoneReport{}, err
	}
	first := low // of the ids that are read
	if most := uint64(query.MostRows)*service.ZoneReportPasses + 10*idsNear; high >= low && high-low >= most {
		first = high - most + 1
	}
	goesOn, err := r.fillReport(ctx, reporter, reportPart{first, high, query.Zones(zone.ID), times{query.Since, query.Until}})
	if err != nil {
		return service.ZoneReport{}, err
	}
	if goesOn && first > low {
		cut, _, err := r.next(ctx, first, high)
		if err != nil {
			return service.ZoneReport{}, err
		}
		reporter.CutAt(cut.CreatedAt)
	}
	oldest, err := r.Oldest(ctx)
	if err != nil {
		return service.ZoneReport{}, err
	}
	return reporter.Report(oldest.CreatedAt), nil
}

// reportPart are the txns with ids from low to high, of some zones and a time.
type reportPart struct {
	low, high uint64
	zones     []int64
	within    times
}

// fillReport adds txns to a report, the newest first, and returns whether that would take more.
func (r *Reader) fillReport(ctx context.Context, reporter *service.ZoneReporter, all reportPart) (goesOn bool, err error) {
	part := all
	for width := uint64(reportRows); part.high >= all.low && part.high > 0; {
		part.low = max(all.low, part.high-min(part.high, width)+1)
		rows, err := r.readReport(ctx, part)
		if err != nil {
			return false, err
		}
		if len(rows) > reportRows && width > 1 { // ids were sparse, and are dense here
			width = max(1, width/8)
			continue
		}
		for _, row := range slices.Backward(rows) {
			if !reporter.Add(row.row()) {
				return false, nil
			}
		}
		if len(rows) < reportRows/4 {
			width = min(2*width, reportWidth)
		}
		part.high = part.low - 1
	}
	return true, nil
}

// reportRow is a row of zone_txn as a report reads it.
type reportRow struct {
	txnRow
	CheckID uint64 `db:"check_id"`
}

func (r reportRow) row() service.ZoneReportRow {
	return service.ZoneReportRow{Txn: r.txn(), CheckID: r.CheckID}
}

// readReport returns the txns of a part, by id. More than reportRows say that there are more.
func (r *Reader) readReport(ctx context.Context, part reportPart) (rows []reportRow, err error) {
	since, until := r.timesOf(ctx, part.low, part.high).and(part.within).bounds()
	args := append([]any{part.low, part.high, since, until}, append(values(part.zones), reportRows+1)...)
	if err = r.pool.SelectContext(ctx, &rows, selectReport(len(part.zones)), args...); err != nil {
		return nil, fmt.Errorf("read txns %d to %d for a report: %w", part.low, part.high, session.LookupError(err))
	}
	return rows, nil
}
