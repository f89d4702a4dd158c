package history

import (
	"context"

	"velocityd/service"
	"velocityd/service/zonereport"
)

// reportRows is how many rows one statement of a report reads.
const reportRows = 20_000

var _ zonereport.Store = (*Reader)(nil)

// ZoneReport implements zonereport.Store. It walks the primary key in parts of some thousand ids, from the
// newest of the query's time on, and holds one part at a time.
func (r *Reader) ZoneReport(
	ctx context.Context, zone service.Zone, query zonereport.Query,
) (zonereport.Report, error) {
	reporter, err := zonereport.NewReporter(zone, query)
	if err != nil {
		return zonereport.Report{}, err
	}
	query = query.WithDefaults()
	low, high, err := r.IDsOf(ctx, query.Since.Time, query.Until.Time)
	if err != nil {
		return zonereport.Report{}, err
	}
	first := low // of the ids that are read
	if most := uint64(query.MostRows)*zonereport.Passes + 10*idsNear; high >= low && high-low >= most {
		first = high - most + 1
	}
	isFull := false
	over := idIndex{reader: r, within: times{query.Since.Time, query.Until.Time}, zones: query.Zones(zone.ID)}
	for txn, err := range (walk{over: over, low: first, high: high, width: reportRows, most: reportRows}).txns(ctx) {
		if err != nil {
			return zonereport.Report{}, err
		}
		if isFull = !reporter.Add(txn); isFull {
			break
		}
	}
	if !isFull && first > low {
		cut, _, err := r.next(ctx, first, high)
		if err != nil {
			return zonereport.Report{}, err
		}
		reporter.CutAt(cut.CreatedAt)
	}
	oldest, err := r.Oldest(ctx)
	if err != nil {
		return zonereport.Report{}, err
	}
	return reporter.Report(oldest.CreatedAt.Time), nil
}
