package memory

import (
	"context"
	"time"

	"velocityd/service"
)

// rolledUp is how far a Store would have rolled up. It counts all txns for each answer instead.
type rolledUp struct{ to, final time.Time }

// RollUp counts all that can be counted now: hours that have settled are final from then on.
func (m *Store) RollUp() {
	m.mu.Lock()
	defer m.mu.Unlock()
	zones := make([]service.Zone, 0, len(m.zones))
	for _, zone := range m.zones {
		zones = append(zones, zone)
	}
	now := m.now()
	m.rolledUp = rolledUp{now.Add(-service.TotalsLag), service.SpanHour.Begin(now.Add(-service.Settling(zones)))}
}

// ZoneTotals implements service.TotalsStore.
func (m *Store) ZoneTotals(
	_ context.Context, zoneID int64, query service.TotalsQuery,
) (t service.ZoneTotals, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if _, err := m.zone(zoneID); err != nil {
		return t, err
	}
	now := m.now()
	if query, err = query.At(now); err != nil {
		return t, err
	}
	t = service.ZoneTotals{
		ZoneID: zoneID, TotalsQuery: query,
		CountedTo: service.CountedTo{RolledUpTo: service.At(m.rolledUp.to), CountedTo: service.At(now)},
	}
	keys := map[time.Time]map[string]bool{}
	var lists [][]service.SpanTotals
	for bucket, places := range m.indexes {
		if bucket.ZoneID != zoneID {
			continue
		}
		spans := m.spans(places, query)
		for _, span := range spans {
			if keys[span.BeginsAt.Time] == nil {
				keys[span.BeginsAt.Time] = map[string]bool{}
			}
			keys[span.BeginsAt.Time][bucket.Key] = true
		}
		lists = append(lists, spans)
	}
	t.Spans = service.MergeSpans(lists...)
	for i, span := range t.Spans {
		if span.Final && query.By == service.SpanHour {
			t.Spans[i].Buckets = new(int64(len(keys[span.BeginsAt.Time])))
		}
	}
	return t, nil
}

// BucketTotals implements service.TotalsStore. It counts all txns, also those of before the setting was switched on.
func (m *Store) BucketTotals(
	_ context.Context, bucket service.Bucket, query service.TotalsQuery,
) (t service.BucketTotals, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	zone, err := m.zone(bucket.ZoneID)
	if err != nil {
		return t, err
	}
	if !zone.Totals {
		return t, service.NoTotals(zone.ID)
	}
	now := m.now()
	if query, err = query.At(now); err != nil {
		return t, err
	}
	t = service.BucketTotals{
		Bucket: bucket, TotalsQuery: query,
		CountedTo: service.CountedTo{RolledUpTo: service.At(m.rolledUp.to), CountedTo: service.At(now)},
		Spans:     m.spans(m.indexes[bucket], query),
	}
	for _, txn := range m.txnsOf(bucket) {
		t.All.Add(txn)
		if txn.LastAt.After(t.LastAt.Time) {
			t.LastAt = txn.LastAt
		}
	}
	return t, nil
}

// spans counts the txns at some places.
func (m *Store) spans(places []int, query service.TotalsQuery) []service.SpanTotals {
	spans := []service.SpanTotals{}
	for _, i := range places {
		if txn := m.txns[i].Txn; query.Holds(txn.CreatedAt.Time) {
			span := service.SpanTotals{BeginsAt: service.At(query.By.Begin(txn.CreatedAt.Time))}
			span.Final = !query.By.End(span.BeginsAt.Time).After(m.rolledUp.final)
			span.Add(txn)
			spans = service.MergeSpans(spans, []service.SpanTotals{span})
		}
	}
	return spans
}
