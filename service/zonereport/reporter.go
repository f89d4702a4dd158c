package zonereport

import (
	"cmp"
	"slices"
	"time"

	"velocityd/service"
)

// Reporter makes a report of txns. It holds some memory for each of them.
type Reporter struct {
	zone    service.Zone
	zones   []int64 // of the txns that are looked at
	query   Query
	report  Report
	hours   map[time.Time]*service.Totals
	keys    map[string]*seenKey
	pairing pairing
	oldest  time.Time
}

// seenKey is one key of the zone, while its txns are counted.
type seenKey struct {
	service.Totals
	last    int64   // microseconds since 1970
	counted []int64 // likewise
}

// NewReporter returns the Reporter for a question about a zone. The error is an ErrInvalid that names the
// field.
func NewReporter(zone service.Zone, query Query) (*Reporter, error) {
	if err := query.Validate(); err != nil {
		return nil, err
	}
	query = query.WithDefaults()
	query.Since.Time, query.Until.Time = query.Since.UTC().Truncate(time.Microsecond),
		query.Until.UTC().Truncate(time.Microsecond)
	return &Reporter{
		zone: zone.WithDefaults(), zones: query.Zones(zone.ID), query: query, report: newReport(zone.ID, query),
		hours: map[time.Time]*service.Totals{}, keys: map[string]*seenKey{}, pairing: newPairing(query),
	}, nil
}

// Add counts a txn, and returns whether it would take another one. Txns come with the newest first, but those near each
// other may be in any order. Those outside of the query's time and zones are left out.
func (r *Reporter) Add(txn service.Txn) (goesOn bool) {
	query := r.query
	if !slices.Contains(r.zones, txn.Bucket.ZoneID) || txn.CreatedAt.Before(query.Since.Time) ||
		!txn.CreatedAt.Before(query.Until.Time) {
		return true
	}
	if r.report.Rows == r.report.MostRows {
		r.CutAt(r.oldest)
		return false
	}
	if r.report.Rows == 0 || txn.CreatedAt.Before(r.oldest) {
		r.oldest = txn.CreatedAt.Time
	}
	r.report.Rows++
	r.count(txn)
	return true
}

// count counts a txn of the query's time.
func (r *Reporter) count(txn service.Txn) {
	r.pairing.add(txn)
	if txn.Bucket.ZoneID != r.zone.ID {
		return
	}
	r.report.Total.Add(txn)
	hour := service.SpanHour.Begin(txn.CreatedAt.Time)
	if r.hours[hour] == nil {
		r.hours[hour] = &service.Totals{}
	}
	r.hours[hour].Add(txn)
	key := r.keys[txn.Bucket.Key]
	if key == nil {
		key = &seenKey{}
		r.keys[txn.Bucket.Key] = key
	}
	key.Add(txn)
	key.last = max(key.last, txn.LastAt.UnixMicro())
	if txn.Counted {
		key.counted = append(key.counted, txn.CreatedAt.UnixMicro())
	}
}

// CutAt says that the txns before an instant are not looked at.
func (r *Reporter) CutAt(at time.Time) {
	if r.report.Rows > 0 && r.oldest.Before(at) {
		at = r.oldest
	}
	if at.After(r.report.From.Time) {
		r.report.IsCut, r.report.From.Time = true, at
	}
}

// Report returns the report of all txns that were added. kept is the instant of the oldest txn that there is, of any
// zone.
func (r *Reporter) Report(kept time.Time) Report {
	report := r.report
	begin := report.From.Time
	if r.report.Rows > 0 && r.oldest.Before(kept) {
		kept = r.oldest
	}
	if kept.After(report.From.Time) && kept.Before(report.Until.Time) {
		report.From.Time = kept
	}
	for hour := service.SpanHour.Begin(begin); hour.Before(report.Until.Time); hour = service.SpanHour.End(hour) {
		span := HourTotals{BeginsAt: service.At(hour)}
		if totals := r.hours[hour]; totals != nil {
			span.Totals = *totals
		}
		report.Hours = append(report.Hours, span)
	}
	for key, seen := range r.keys {
		if seen.WouldBlock > 0 {
			report.Stopped = append(report.Stopped,
				KeyTotals{Key: key, Totals: seen.Totals, LastAt: service.At(instantOf(seen.last))})
		} else if near, ok := r.near(key, seen.counted); ok {
			report.Near = append(report.Near, near)
		}
	}
	most := report.Keys
	report.Stopped = topOf(most, report.Stopped, func(x, y KeyTotals) int {
		return cmp.Or(-cmp.Compare(x.WouldBlock, y.WouldBlock), cmp.Compare(x.Key, y.Key))
	})
	report.Near = topOf(most, report.Near,
		func(x, y NearKey) int { return cmp.Or(-cmp.Compare(x.Most, y.Most), cmp.Compare(x.Key, y.Key)) })
	report.Sprays, report.Targets = r.pairing.bursts()
	report.Sprays, report.Targets = topOf(most, report.Sprays, compareBursts), topOf(most, report.Targets, compareBursts)
	return report
}

// near returns how near a key came to the zone's limit, if that is near enough. A key with more than the zone's rate
// has an override.
func (r *Reporter) near(key string, counted []int64) (near NearKey, ok bool) {
	slices.Sort(counted)
	term, begin := r.zone.Term(), 0
	for i, at := range counted {
		since := term.Since(instantOf(at)).UnixMicro()
		for counted[begin] <= since {
			begin++
		}
		if n := i - begin + 1; n > near.Most {
			near = NearKey{Key: key, Most: n, At: service.At(instantOf(at))}
		}
	}
	return near, near.Most*100 >= nearRate*r.zone.Rate && near.Most <= r.zone.Rate && near.Most > 0
}

// topOf returns the first elements of a list in an order.
func topOf[T any](most int, list []T, order func(x, y T) int) []T {
	slices.SortFunc(list, order)
	return slices.Clone(list[:min(most, len(list))])
}

func compareBursts(x, y Burst) int {
	return cmp.Or(-cmp.Compare(x.Successes, y.Successes), -cmp.Compare(x.Others, y.Others), cmp.Compare(x.Key, y.Key))
}
