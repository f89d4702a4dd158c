package api

import "velocityd/service"

// Totals are numbers of attempts.
type Totals struct {
	Attempts   int64 `json:"attempts"`
	Allowed    int64 `json:"allowed"`
	Blocked    int64 `json:"blocked"`
	WouldBlock int64 `json:"would_block"`
	Successes  int64 `json:"successes"`
	Failures   int64 `json:"failures"`
}

// SpanTotals are the totals of an hour, a day or a month. Buckets is there in final hours of a zone alone.
type SpanTotals struct {
	BeginsAt Instant `json:"begins_at"`
	Totals
	Buckets *int64 `json:"buckets,omitzero"`
	Final   bool   `json:"final"`
}

// Counted says which spans an answer has, and how far attempts are counted in it.
type Counted struct {
	By         service.Span `json:"by"`
	Since      Instant      `json:"since"`
	Until      Instant      `json:"until"`
	RolledUpTo Instant      `json:"rolled_up_to"`
	CountedTo  Instant      `json:"counted_to"`
}

// ZoneTotals is the answer of GET /v1/zones/{id}/totals.
type ZoneTotals struct {
	ZoneID int64 `json:"zone_id"`
	Counted
	Spans []SpanTotals `json:"spans"`
}

// BucketTotals is the answer of GET /v1/zones/{id}/buckets/{key}/totals.
type BucketTotals struct {
	ZoneID    int64  `json:"zone_id"`
	BucketKey string `json:"bucket_key"`
	Counted
	CountedSince Instant      `json:"counted_since"`
	LastAt       Instant      `json:"last_at,omitzero"`
	All          Totals       `json:"all"`
	Spans        []SpanTotals `json:"spans"`
}

func newCounted(q service.TotalsQuery, c service.CountedTo) Counted {
	return Counted{
		By: q.By, Since: Instant(q.Since.Time), Until: Instant(q.Until.Time), RolledUpTo: Instant(c.RolledUpTo.Time), CountedTo: Instant(c.CountedTo.Time),
	}
}

func (c Counted) parts() (service.TotalsQuery, service.CountedTo) {
	return service.TotalsQuery{Since: service.At(c.Since.Time()), Until: service.At(c.Until.Time()), By: c.By},
		service.CountedTo{RolledUpTo: service.At(c.RolledUpTo.Time()), CountedTo: service.At(c.CountedTo.Time())}
}

func newSpans(spans []service.SpanTotals) []SpanTotals {
	list := make([]SpanTotals, len(spans))
	for i, s := range spans {
		list[i] = SpanTotals{BeginsAt: Instant(s.BeginsAt.Time), Totals: Totals(s.Totals), Buckets: s.Buckets, Final: s.Final}
	}
	return list
}

func spans(list []SpanTotals) []service.SpanTotals {
	spans := make([]service.SpanTotals, len(list))
	for i, s := range list {
		spans[i] = service.SpanTotals{BeginsAt: service.At(s.BeginsAt.Time()), Totals: service.Totals(s.Totals), Buckets: s.Buckets, Final: s.Final}
	}
	return spans
}

// NewZoneTotals returns the answer for a zone.
func NewZoneTotals(t service.ZoneTotals) ZoneTotals {
	return ZoneTotals{ZoneID: t.ZoneID, Counted: newCounted(t.TotalsQuery, t.CountedTo), Spans: newSpans(t.Spans)}
}

// ZoneTotals converts the answer to the type of package service.
func (t ZoneTotals) ZoneTotals() service.ZoneTotals {
	query, counted := t.parts()
	return service.ZoneTotals{ZoneID: t.ZoneID, TotalsQuery: query, CountedTo: counted, Spans: spans(t.Spans)}
}

// NewBucketTotals returns the answer for a bucket.
func NewBucketTotals(t service.BucketTotals) BucketTotals {
	return BucketTotals{
		ZoneID: t.Bucket.ZoneID, BucketKey: t.Bucket.Key, Counted: newCounted(t.TotalsQuery, t.CountedTo), CountedSince: Instant(t.CountedSince.Time),
		LastAt: Instant(t.LastAt.Time), All: Totals(t.All), Spans: newSpans(t.Spans),
	}
}

// BucketTotals converts the answer to the type of package service.
func (t BucketTotals) BucketTotals() service.BucketTotals {
	query, counted := t.parts()
	return service.BucketTotals{
		Bucket: service.Bucket{ZoneID: t.ZoneID, Key: t.BucketKey}, CountedSince: service.At(t.CountedSince.Time()), TotalsQuery: query, CountedTo: counted,
		All: service.Totals(t.All), LastAt: service.At(t.LastAt.Time()), Spans: spans(t.Spans),
	}
}
