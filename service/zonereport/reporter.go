package zonereport

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	"velocityd/service"
)

// reporter counts the txns of a report, part by part. It holds some memory for each of them.
type reporter struct {
	zone    service.Zone
	other   *service.Zone // the other one of the query's two zones, or nil
	zones   []int64       // of the txns that are looked at
	query   Query
	report  Report
	seen    map[time.Time]*service.Totals // of the zone, by hour
	keys    map[service.Bucket]*seenKey   // of all zones
	pairing pairing
	parts   []Part // that were read; the last one is being read
	left    int    // txns that may still be read of it
	isFull  bool   // no more may
	oldest  time.Time
}

// seenKey is one key, while its txns are counted.
type seenKey struct {
	seenRun
	former  []seenRun
	counted []int64 // microseconds since 1970
}

// seenRun is the txns of a key in one of the parts that are read.
type seenRun struct {
	part        int32
	first, last int64 // microseconds since 1970
	service.Totals
}

func newReporter(zone service.Zone, query Query) *reporter {
	query.Since.Time, query.Until.Time = query.Since.UTC().Truncate(time.Microsecond),
		query.Until.UTC().Truncate(time.Microsecond)
	return &reporter{
		zone: zone.WithDefaults(), zones: query.Zones(zone.ID), query: query, report: newReport(zone.ID, query),
		seen: map[time.Time]*service.Totals{}, keys: map[service.Bucket]*seenKey{}, pairing: newPairing(query),
	}
}

// whole is the whole time of the report.
func (r *reporter) whole() Part { return Part{r.query.Since, r.query.Until} }

// readZones finds the other zone. The report has no list of one that is gone.
func (m *making) readZones(ctx context.Context) error {
	id := m.query.UsersZone + m.query.AddressesZone - m.zone.ID
	if m.zone.ID != m.query.UsersZone && m.zone.ID != m.query.AddressesZone {
		return nil
	}
	other, err := m.source.Zone(ctx, id)
	if err == nil {
		m.other = new(other.WithDefaults())
	}
	if isGone(err) {
		return nil
	}
	return err
}

func isGone(err error) bool { return errors.Is(err, service.ErrNotFound) }

// add counts a txn of the part that is being read, and returns whether it would take another one. Txns come with the
// newest first, but those near each other may be in any order. Those of other zones and times are left out. Of the txns
// of one instant all are counted, or none.
func (r *reporter) add(txn service.Txn) (goesOn bool) {
	if !slices.Contains(r.zones, txn.Bucket.ZoneID) || !r.parts[len(r.parts)-1].Holds(txn.CreatedAt.Time) {
		return true
	}
	if r.left <= 0 && !txn.CreatedAt.Equal(r.oldest) {
		r.isFull = true
		return false
	}
	if txn.CreatedAt.Before(r.oldest) {
		r.oldest = txn.CreatedAt.Time
	}
	r.left--
	r.report.Rows++
	r.pairing.add(txn)
	r.count(txn)
	return true
}

// count counts a txn for its hour and its key.
func (r *reporter) count(txn service.Txn) {
	if txn.Bucket.ZoneID == r.zone.ID {
		hour := service.SpanHour.Begin(txn.CreatedAt.Time)
		if r.seen[hour] == nil {
			r.seen[hour] = &service.Totals{}
		}
		r.seen[hour].Add(txn)
	}
	part, at := int32(len(r.parts)-1), txn.CreatedAt.UnixMicro()
	key := r.keys[txn.Bucket]
	switch {
	case key == nil:
		key = &seenKey{seenRun: seenRun{part: part, first: at}}
		r.keys[txn.Bucket] = key
	case key.part != part:
		key.former = append(key.former, key.seenRun)
		key.seenRun = seenRun{part: part, first: at}
	}
	key.Add(txn)
	key.first, key.last = min(key.first, at), max(key.last, txn.LastAt.UnixMicro())
	if txn.Counted {
		key.counted = append(key.counted, at)
	}
}

// runs returns what was seen of the key in each of the times that were read without a gap, with their indexes as part.
func (k *seenKey) runs(stretches []int) (runs []seenRun) {
	for _, run := range append(k.former, k.seenRun) {
		run.part = int32(stretches[run.part])
		i := slices.IndexFunc(runs, func(other seenRun) bool { return other.part == run.part })
		if i < 0 {
			runs = append(runs, run)
			continue
		}
		runs[i].first, runs[i].last = min(run.first, runs[i].first), max(run.last, runs[i].last)
		runs[i].Totals = run.Plus(runs[i].Totals)
	}
	return runs
}

// result returns the report of all txns that were added, without hours.
func (r *reporter) result() Report {
	report := r.report
	report.Read = merged(r.parts)
	stretches := make([]int, len(r.parts))
	for i, part := range r.parts {
		stretches[i] = indexOf(report.Read, part.Since.Time)
	}
	report.Stopped, report.Near = r.keysOf(r.zone, stretches)
	if r.other != nil {
		report.Other = &Other{ZoneID: r.other.ID}
		report.Other.Stopped, report.Other.Near = r.keysOf(*r.other, stretches)
	}
	all := func(place int, key uint32, stretch int) (t service.Totals) {
		bucket := service.Bucket{ZoneID: r.query.UsersZone, Key: r.pairing.keys[place].list[key-1]}
		if place == pairAddress {
			bucket.ZoneID = r.query.AddressesZone
		}
		for _, run := range r.keys[bucket].runs(stretches) {
			if int(run.part) == stretch {
				t = run.Totals
			}
		}
		return t
	}
	r.pairing.conclude(&report, all)
	return report
}

// keysOf returns the keys of a zone that were stopped, and those near its limit. The numbers of a key are those of one
// time that was read without a gap: the one in which it was stopped most.
func (r *reporter) keysOf(zone service.Zone, stretches []int) (stopped []KeyTotals, near []NearKey) {
	for bucket, key := range r.keys {
		if bucket.ZoneID != zone.ID {
			continue
		}
		var worst seenRun
		for _, run := range key.runs(stretches) {
			if cmp.Or(cmp.Compare(run.WouldBlock, worst.WouldBlock), cmp.Compare(run.Attempts, worst.Attempts)) > 0 {
				worst = run
			}
		}
		if worst.WouldBlock > 0 {
			stopped = append(stopped, KeyTotals{
				Key: bucket.Key, Totals: worst.Totals, FirstAt: service.At(instantOf(worst.first)),
				LastAt: service.At(instantOf(worst.last)),
			})
		} else if n, ok := nearLimit(zone, bucket.Key, key.counted); ok {
			near = append(near, n)
		}
	}
	most := r.query.Keys
	stopped = topOf(most, stopped, func(x, y KeyTotals) int {
		return cmp.Or(-cmp.Compare(x.WouldBlock, y.WouldBlock), cmp.Compare(x.Key, y.Key))
	})
	return stopped, topOf(most, near,
		func(x, y NearKey) int { return cmp.Or(-cmp.Compare(x.Most, y.Most), cmp.Compare(x.Key, y.Key)) })
}

// nearLimit returns how near a key came to its zone's limit, if that is near enough. A key with more than the zone's
// rate has an override.
func nearLimit(zone service.Zone, key string, counted []int64) (near NearKey, ok bool) {
	slices.Sort(counted)
	term, begin := zone.Term(), 0
	for i, at := range counted {
		since := term.Since(instantOf(at)).UnixMicro()
		for counted[begin] <= since {
			begin++
		}
		if n := i - begin + 1; n > near.Most {
			near = NearKey{Key: key, Most: n, At: service.At(instantOf(at))}
		}
	}
	return near, near.Most*100 >= nearRate*zone.Rate && near.Most <= zone.Rate && near.Most > 0
}

// topOf returns the first elements of a list in an order.
func topOf[T any](most int, list []T, order func(x, y T) int) []T {
	slices.SortFunc(list, order)
	return slices.Clone(list[:min(most, len(list))])
}
