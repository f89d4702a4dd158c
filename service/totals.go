package service

import (
	"context"
	"fmt"
	"slices"
	"time"
)

const (
	// TotalsLag is how far behind the engine's clock attempts are rolled up. Txns are committed a little after their
	// instant.
	TotalsLag = 10 * time.Second
	// MaxTotalsSpan bounds the time of one TotalsQuery.
	MaxTotalsSpan = 366 * 24 * time.Hour
	// HourTotalsDays is for how many days the hours of buckets are kept. The hours of zones are kept for ever.
	HourTotalsDays = 35
	// DayTotalsDays is for how many days the days of buckets are kept. Their months and all times are kept for ever.
	DayTotalsDays = 400
	// leastSettling is how long after its end an hour is counted for the second time at the earliest.
	leastSettling = time.Hour
)

// Totals are numbers of attempts. An attempt is counted once in each bucket that it names, so one check of two
// buckets is an attempt in both. An attempt without a txn, which the txn of an earlier blocked one counts, is counted
// in the hour of that txn. All attempts are either Allowed or Blocked, by this bucket or by another one of the check.
type Totals struct {
	Attempts int64 `json:"attempts"`
	Allowed  int64 `json:"allowed"`
	Blocked  int64 `json:"blocked"`
	// WouldBlock are the attempts for which the bucket itself had no room, whether or not its zone was enforced.
	WouldBlock int64 `json:"would_block"`
	// Successes and Failures are the reported outcomes of allowed attempts.
	Successes int64 `json:"successes"`
	Failures  int64 `json:"failures"`
}

// Add counts the attempts of a txn.
func (t *Totals) Add(txn Txn) {
	n := int64(txn.Attempts)
	t.Attempts += n
	if txn.Blocked {
		t.Blocked += n
	} else {
		t.Allowed += n
	}
	if txn.WouldBlock {
		t.WouldBlock += n
	}
	switch txn.Outcome {
	case OutcomeSuccess:
		t.Successes++
	case OutcomeFailure:
		t.Failures++
	}
}

// Plus returns the sum of t and other.
func (t Totals) Plus(other Totals) Totals {
	return Totals{
		Attempts: t.Attempts + other.Attempts, Allowed: t.Allowed + other.Allowed, Blocked: t.Blocked + other.Blocked,
		WouldBlock: t.WouldBlock + other.WouldBlock, Successes: t.Successes + other.Successes,
		Failures: t.Failures + other.Failures,
	}
}

// Minus returns the difference of t and other. Its numbers may be below 0.
func (t Totals) Minus(other Totals) Totals {
	return t.Plus(
		Totals{-other.Attempts, -other.Allowed, -other.Blocked, -other.WouldBlock, -other.Successes, -other.Failures})
}

// Span is a piece of the calendar, in UTC.
type Span string

// The spans by which attempts are counted.
const (
	SpanHour  Span = "hour"
	SpanDay   Span = "day"
	SpanMonth Span = "month"
)

// Begin returns the begin of the span in which an instant lies.
func (s Span) Begin(at time.Time) time.Time {
	at = at.UTC()
	switch s {
	case SpanDay:
		return time.Date(at.Year(), at.Month(), at.Day(), 0, 0, 0, 0, time.UTC)
	case SpanMonth:
		return time.Date(at.Year(), at.Month(), 1, 0, 0, 0, 0, time.UTC)
	default:
		return at.Truncate(time.Hour)
	}
}

// End returns the end of the span that begins at an instant.
func (s Span) End(begin time.Time) time.Time {
	switch s {
	case SpanDay:
		return begin.AddDate(0, 0, 1)
	case SpanMonth:
		return begin.AddDate(0, 1, 0)
	default:
		return begin.Add(time.Hour)
	}
}

// TotalsQuery asks for the totals of the spans that begin from Since on and before Until. The span in which Since lies
// is one of them. Each is answered as a whole. Without Until it ends now. Without Since it begins a day before its end
// for hours, 30 days for days, and 366 days for months.
type TotalsQuery struct {
	By    Span    `json:"by"` // the zero value is SpanHour
	Since Instant `json:"since"`
	Until Instant `json:"until"`
}

// At returns the query with everything spelt out at now, and Since at the begin of a span. The error is an ErrInvalid
// that names the field.
func (q TotalsQuery) At(now time.Time) (TotalsQuery, error) {
	before := map[Span]time.Duration{
		"": 24 * time.Hour, SpanHour: 24 * time.Hour, SpanDay: 30 * 24 * time.Hour,
		SpanMonth: MaxTotalsSpan,
	}
	standard, isKnown := before[q.By]
	if !isKnown {
		return q, NewFieldError("by", "must be hour, day or month, is %.20q", q.By)
	}
	if q.By == "" {
		q.By = SpanHour
	}
	if q.Until.IsZero() {
		q.Until.Time = now
	}
	if q.Since.IsZero() {
		q.Since.Time = q.Until.Add(-standard)
	}
	switch {
	case !q.Since.Before(q.Until.Time):
		return q, NewFieldError("since", "must be before until")
	case q.Until.Sub(q.Since.Time) > MaxTotalsSpan:
		return q, NewFieldError("since", "must be at most %d days before until", int(MaxTotalsSpan.Hours()/24))
	}
	q.Since.Time, q.Until.Time = q.By.Begin(q.Since.Time), q.Until.UTC()
	return q, nil
}

// Holds reports whether the span of an instant is asked for. The query must be one that At has returned.
func (q TotalsQuery) Holds(at time.Time) bool {
	begin := q.By.Begin(at)
	return !begin.Before(q.Since.Time) && begin.Before(q.Until.Time)
}

// SpanTotals are the totals of one span.
type SpanTotals struct {
	BeginsAt Instant `json:"begins_at"`
	Totals
	// Buckets is how many buckets were asked for, exactly, in a final hour of a zone. Otherwise it is nil.
	Buckets *int64 `json:"buckets,omitzero"`
	// Final says that the span has ended and was counted for the second time, with the outcomes that came late. An
	// outcome that is reported still later is not counted.
	Final bool `json:"final"`
}

// CountedTo says how far attempts are counted, by the engine's clock in UTC.
type CountedTo struct {
	// RolledUpTo is the first instant whose attempts are not rolled up yet. They are counted live.
	RolledUpTo Instant `json:"rolled_up_to"`
	// CountedTo is the first instant whose attempts are not in the answer. It is the time of the answer, or
	// RolledUpTo if the last roll-up is so long ago that counting live would take too much.
	CountedTo Instant `json:"counted_to"`
}

// ZoneTotals are the totals of a zone. Spans without attempts are left out.
type ZoneTotals struct {
	ZoneID int64 `json:"zone_id"`
	TotalsQuery
	CountedTo
	Spans []SpanTotals `json:"spans"`
}

// BucketTotals are the totals of a bucket in a zone with Zone.Totals. Spans without attempts are left out, and so are
// hours and days that are no longer kept.
type BucketTotals struct {
	Bucket
	TotalsQuery
	CountedTo
	// CountedSince is the first instant whose attempts are counted.
	CountedSince Instant `json:"counted_since"`
	// LastAt is the time of the newest attempt, or the zero time if there was none.
	LastAt Instant      `json:"last_at,omitzero"`
	All    Totals       `json:"all"`
	Spans  []SpanTotals `json:"spans"`
}

// MergeSpans returns the sums of spans by their begins, in order.
func MergeSpans(lists ...[]SpanTotals) []SpanTotals {
	merged := []SpanTotals{}
	for _, span := range slices.Concat(lists...) {
		place, exists := slices.BinarySearchFunc(
			merged, span, func(a, b SpanTotals) int { return a.BeginsAt.Compare(b.BeginsAt.Time) })
		if !exists {
			merged = slices.Insert(merged, place, span)
			continue
		}
		merged[place].Totals = merged[place].Totals.Plus(span.Totals)
		merged[place].Final = merged[place].Final && span.Final
	}
	return merged
}

// Settling returns how long after its end an hour is counted for the second time: then no success can be reported any
// more where failures count, and no txn of the hour counts further blocked attempts. Where attempts count, outcomes may
// be reported later still; these are not counted.
func Settling(zones []Zone) time.Duration {
	longest := leastSettling
	for _, zone := range zones {
		if zone.Counts == CountsFailures {
			longest = max(longest, zone.WithDefaults().ReserveTTL)
		}
		if zone.HasSeries() {
			longest = max(longest, longestSeries)
		}
	}
	return longest
}

// NoTotals returns the ErrConflict of a zone that does not count the attempts of its buckets.
func NoTotals(zoneID int64) error {
	return fmt.Errorf("%w: zone %d keeps no totals of its buckets: switch its setting totals on", ErrConflict, zoneID)
}

// TotalsStore answers with totals. Its errors wrap ErrInvalid for a wrong query, ErrNotFound if there is no such zone,
// and ErrBusy if the engine is away.
type TotalsStore interface {
	ZoneTotals(ctx context.Context, zoneID int64, query TotalsQuery) (ZoneTotals, error)
	// BucketTotals takes a key that is normalised by its zone's rule. The error also wraps ErrConflict if the zone is
	// one without Zone.Totals.
	BucketTotals(ctx context.Context, bucket Bucket, query TotalsQuery) (BucketTotals, error)
}
