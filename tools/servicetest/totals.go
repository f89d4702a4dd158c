package servicetest

import (
	"cmp"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"velocityd/service"
	"velocityd/service/memory"
)

// TotalsSubject is a Subject that answers with totals.
type TotalsSubject interface {
	Subject
	service.TotalsStore
	// RollUp counts all attempts that are due to be counted.
	RollUp(tb testing.TB)
}

// ExerciseTotals tests that the store that open returns keeps the contract of service.TotalsStore. It calls open once
// for each claim; open must return a TotalsSubject without zones and txns.
func ExerciseTotals(t *testing.T, open func(t *testing.T) TotalsSubject) {
	for name, holds := range map[string]func(*testing.T, totalsSubject){
		"AttemptsOfNowAreInTheAnswer":                totalsOfNow,
		"TotalsAreAPlainCountOfTheHistory":           totalsArePlainCounts,
		"RepeatedAttemptsCount":                      totalsOfRepeats,
		"OutcomesBeforeTheSecondCountAreCounted":     totalsOfLateOutcomes,
		"ARollUpTwiceAndTwoAtOnceChangeNothing":      rollUpsAgain,
		"AFinalHourSaysHowManyBucketsWereAskedFor":   totalsOfBuckets,
		"TotalsOfAnUnknownZoneAreNotFound":           totalsOfNoZone,
		"AZoneWithoutTotalsHasThoseOfItsBucketsNot":  zoneWithoutTotals,
		"WrongQueriesOfTotalsAreRefused":             wrongTotalsQueries,
		"ACheckOfTwoBucketsIsAnAttemptInEachOfThese": totalsOfTwoBuckets,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := open(t)
			holds(t, totalsSubject{subject: subject{Subject: b}, of: b})
		})
	}
}

// TotalsThrough returns the Subject of m, whose totals are those that store answers with, such as a client of an HTTP
// server in front of m.
func TotalsThrough(m *memory.Store, store service.TotalsStore) TotalsSubject {
	return totalsThrough{InMemory(m), store, m}
}

type totalsThrough struct {
	Subject
	service.TotalsStore
	memory *memory.Store
}

// RollUp implements TotalsSubject.
func (t totalsThrough) RollUp(tb testing.TB) {
	tb.Helper()
	t.memory.RollUp()
}

// totalsSubject adds steps for claims to a TotalsSubject.
type totalsSubject struct {
	subject
	of TotalsSubject
}

// keeping creates a zone with totals.
func (b totalsSubject) keeping(tb testing.TB, id int64, rate int) {
	tb.Helper()
	b.set(tb, service.Zone{ID: id, Rate: rate, Window: time.Hour, Totals: true})
}

func (b totalsSubject) ofZone(tb testing.TB, id int64, q service.TotalsQuery) service.ZoneTotals {
	tb.Helper()
	t, err := b.of.ZoneTotals(tb.Context(), id, q)
	if err != nil {
		tb.Fatalf("totals of zone %d: %v", id, err)
	}
	return t
}

func (b totalsSubject) ofBucket(tb testing.TB, bucket service.Bucket, q service.TotalsQuery) service.BucketTotals {
	tb.Helper()
	t, err := b.of.BucketTotals(tb.Context(), bucket, q)
	if err != nil {
		tb.Fatalf("totals of %+v: %v", bucket, err)
	}
	return t
}

// wantCounted wants the totals of buckets and their zones to be plain counts of their txns, by each span.
func (b totalsSubject) wantCounted(tb testing.TB, when string, buckets ...service.Bucket) {
	tb.Helper()
	for _, by := range []service.Span{service.SpanHour, service.SpanDay, service.SpanMonth} {
		q := service.TotalsQuery{By: by, Since: service.At(time.Now().Add(-300 * 24 * time.Hour))}
		zones := map[int64][]service.Txn{}
		for _, bucket := range buckets {
			txns := b.Txns(tb, bucket)
			zones[bucket.ZoneID] = append(zones[bucket.ZoneID], txns...)
			got := b.ofBucket(tb, bucket, q)
			var all service.Totals
			var last time.Time
			for _, txn := range txns {
				all.Add(txn)
				last = slices.MaxFunc([]time.Time{last, txn.LastAt.Time}, time.Time.Compare)
			}
			if got.Bucket != bucket || got.All != all || !got.LastAt.Equal(last) {
				tb.Errorf("%s, %+v: counted %+v, the last at %s, want %+v, %s", when, bucket, got.All, got.LastAt.Time, all, last)
			}
			wantSpans(tb, fmt.Sprintf("%s, %+v", when, bucket), got.Spans, txns, by)
		}
		for id, txns := range zones {
			wantSpans(tb, fmt.Sprintf("%s, zone %d", when, id), b.ofZone(tb, id, q).Spans, txns, by)
		}
	}
}

func wantSpans(tb testing.TB, of string, got []service.SpanTotals, txns []service.Txn, by service.Span) {
	tb.Helper()
	want := map[time.Time]service.Totals{}
	for _, txn := range txns {
		sum := want[by.Begin(txn.CreatedAt.Time)]
		sum.Add(txn)
		want[by.Begin(txn.CreatedAt.Time)] = sum
	}
	if !slices.IsSortedFunc(got, func(x, y service.SpanTotals) int { return x.BeginsAt.Compare(y.BeginsAt.Time) }) ||
		len(got) != len(want) {
		tb.Errorf("%s by %s: %+v, want %v", of, by, got, want)
	}
	for _, span := range got {
		if span.Totals != want[span.BeginsAt.Time] {
			tb.Errorf("%s, %s of %s: %+v, want %+v", of, by, span.BeginsAt.Time, span.Totals, want[span.BeginsAt.Time])
		}
	}
}

func totalsOfNow(t *testing.T, b totalsSubject) {
	b.keeping(t, 1, 2)
	alice := at(1, "alice")
	if got := b.ofBucket(t, alice, service.TotalsQuery{}); got.All != (service.Totals{}) || !got.LastAt.IsZero() ||
		len(got.Spans) != 0 {
		t.Errorf("before the first attempt: %+v", got)
	}
	for range 3 {
		d := b.check(t, alice)
		if !d.Blocked {
			b.wantReport(t, d.TxnID(), failure, nil)
		}
		b.wantCounted(t, "live", alice)
		b.of.RollUp(t)
		b.wantCounted(t, "after a roll-up", alice)
	}
	got := b.ofBucket(t, alice, service.TotalsQuery{})
	if want := (service.Totals{Attempts: 3, Allowed: 2, Blocked: 1, WouldBlock: 1, Failures: 2}); got.All != want {
		t.Errorf("got %+v, want %+v", got.All, want)
	}
	// Totals that are switched on shortly after a full hour begin there.
	lag, isNew := got.CountedTo.CountedTo.Sub(got.RolledUpTo.Time), got.RolledUpTo.Equal(got.CountedSince.Time)
	if lag < service.TotalsLag && !isNew || lag > time.Hour || got.Spans[0].Final {
		t.Errorf("%+v", got)
	}
}

func totalsArePlainCounts(t *testing.T, b totalsSubject) {
	r := rand.New(rand.NewPCG(1, 2))
	b.keeping(t, 1, 3)
	b.set(t, service.Zone{ID: 2, Rate: 2, Window: time.Minute, Mode: service.ModeShadow, Totals: true})
	b.set(t, service.Zone{ID: 3, Rate: 4, Window: time.Hour, RecordBlocked: 1, Totals: true})
	var buckets []service.Bucket
	for _, key := range []string{"alice", "Alice", "alice ", "élan", "🔑", "'; --"} {
		for zone := range int64(3) {
			buckets = append(buckets, at(zone+1, key))
		}
	}
	const day = 24 * time.Hour
	for _, age := range []time.Duration{
		100 * day, 40 * day, 49 * time.Hour, 3 * time.Hour, 50 * time.Minute,
		2 * time.Minute, 0,
	} {
		for range 40 {
			named := buckets[r.IntN(len(buckets))]
			d := b.check(t, named)
			if outcome := []service.Outcome{"", success, failure}[r.IntN(3)]; outcome != "" && !d.Blocked {
				b.wantReport(t, d.TxnID(), outcome, nil)
			}
		}
		// Those of before are older already: the next ages add up.
		b.age(t, age, buckets...)
	}
	b.of.RollUp(t)
	b.wantCounted(t, "rolled up", buckets...)
	b.of.RollUp(t)
	b.wantCounted(t, "rolled up again", buckets...)
}

func totalsOfRepeats(t *testing.T, b totalsSubject) {
	b.set(t, service.Zone{ID: 1, Rate: 0, Window: time.Hour, RecordBlocked: 1, Totals: true})
	alice := at(1, "alice")
	for range 5 {
		b.check(t, alice)
	}
	b.wantCounted(t, "live", alice)
	b.age(t, 20*time.Minute, alice)
	b.of.RollUp(t)
	b.wantCounted(t, "rolled up", alice)
	want := service.Totals{Attempts: 5, Blocked: 5, WouldBlock: 5}
	if got := b.ofBucket(t, alice, service.TotalsQuery{}); got.All != want {
		t.Errorf("%+v", got.All)
	}
}

func totalsOfLateOutcomes(t *testing.T, b totalsSubject) {
	b.keeping(t, 1, 9)
	alice := at(1, "alice")
	var ids []uint64
	for range 3 {
		ids = append(ids, b.check(t, alice).TxnID())
	}
	b.age(t, 150*time.Minute, alice)
	b.wantReport(t, ids[0], success, nil)
	b.wantReport(t, ids[1], failure, nil)
	b.of.RollUp(t)
	b.wantCounted(t, "final", alice)
	got := b.ofZone(t, 1, service.TotalsQuery{})
	if len(got.Spans) != 1 || !got.Spans[0].Final || got.Spans[0].Successes != 1 || got.Spans[0].Failures != 1 {
		t.Errorf("%+v", got)
	}
}

func rollUpsAgain(t *testing.T, b totalsSubject) {
	b.keeping(t, 1, 2)
	b.keeping(t, 2, 9)
	var buckets []service.Bucket
	for i := range 10 {
		buckets = append(buckets, at(int64(i%2+1), fmt.Sprint("user", i)))
	}
	for _, age := range []time.Duration{5 * time.Hour, 100 * time.Minute, 20 * time.Minute} {
		for range 3 {
			for _, bucket := range buckets {
				b.check(t, bucket)
			}
		}
		b.age(t, age, buckets...)
	}
	var group sync.WaitGroup
	for range 4 {
		group.Go(func() { b.of.RollUp(t) })
	}
	group.Wait()
	b.of.RollUp(t)
	b.wantCounted(t, "four at once", buckets...)
	before := b.ofZone(t, 1, service.TotalsQuery{By: service.SpanHour})
	b.of.RollUp(t)
	after := b.ofZone(t, 1, service.TotalsQuery{By: service.SpanHour})
	same := func(x, y service.SpanTotals) bool {
		return x.BeginsAt.Equal(y.BeginsAt.Time) && x.Totals == y.Totals && x.Final == y.Final &&
			(x.Buckets == nil) == (y.Buckets == nil)
	}
	if !slices.EqualFunc(before.Spans, after.Spans, same) {
		t.Errorf("before %+v, after %+v", before, after)
	}
}

func totalsOfBuckets(t *testing.T, b totalsSubject) {
	b.zone(t, 1, 9, time.Hour)
	keys := []string{"a", "A", "b", "a ", "é"}
	var buckets []service.Bucket
	for _, key := range keys {
		buckets = append(buckets, at(1, key))
		b.check(t, at(1, key))
		b.check(t, at(1, key))
	}
	b.age(t, 3*time.Hour, buckets...)
	b.check(t, at(1, "b"))
	b.of.RollUp(t)
	got := b.ofZone(t, 1, service.TotalsQuery{})
	slices.SortFunc(
		got.Spans, func(x, y service.SpanTotals) int { return cmp.Compare(x.BeginsAt.Unix(), y.BeginsAt.Unix()) })
	total := int64(0)
	for _, span := range got.Spans {
		if (span.Buckets != nil) != span.Final {
			t.Errorf("%+v", span)
		}
		if span.Buckets != nil {
			total += *span.Buckets
		}
	}
	if first := got.Spans[0]; !first.Final || total < 5 || total > 6 || got.Spans[len(got.Spans)-1].Final {
		t.Errorf("%+v, %d buckets", got, total)
	}
}

func totalsOfTwoBuckets(t *testing.T, b totalsSubject) {
	b.keeping(t, 1, 1)
	b.keeping(t, 2, 9)
	user, addr := at(1, "alice"), at(2, "203.0.113.9")
	b.wantReport(t, b.check(t, user, addr).TxnID(), success, nil)
	b.check(t, user, addr) // blocked by the user
	for zone, want := range map[int64]service.Totals{
		1: {Attempts: 2, Allowed: 1, Blocked: 1, WouldBlock: 1, Successes: 1},
		2: {Attempts: 2, Allowed: 1, Blocked: 1, Successes: 1},
	} {
		if got := b.ofZone(t, zone, service.TotalsQuery{By: service.SpanDay}); sumOf(got.Spans) != want {
			t.Errorf("zone %d: %+v, want %+v", zone, got.Spans, want)
		}
	}
}

// sumOf adds up all spans, in case an hour or a day has just begun.
func sumOf(spans []service.SpanTotals) (sum service.Totals) {
	for _, span := range spans {
		sum = sum.Plus(span.Totals)
	}
	return sum
}

func totalsOfNoZone(t *testing.T, b totalsSubject) {
	if got, err := b.of.ZoneTotals(t.Context(), 404, service.TotalsQuery{}); !errors.Is(err, service.ErrNotFound) {
		t.Errorf("%+v, %v", got, err)
	}
	if got, err := b.of.BucketTotals(t.Context(), at(404, "alice"), service.TotalsQuery{}); !errors.Is(
		err, service.ErrNotFound) {
		t.Errorf("%+v, %v", got, err)
	}
}

func zoneWithoutTotals(t *testing.T, b totalsSubject) {
	b.zone(t, 1, 9, time.Hour)
	b.check(t, at(1, "alice"))
	if got, err := b.of.BucketTotals(t.Context(), at(1, "alice"), service.TotalsQuery{}); !errors.Is(
		err, service.ErrConflict) {
		t.Errorf("%+v, %v, want ErrConflict", got, err)
	}
	if got := b.ofZone(t, 1, service.TotalsQuery{}); sumOf(got.Spans).Attempts != 1 {
		t.Errorf("the zone's: %+v", got)
	}
}

func wrongTotalsQueries(t *testing.T, b totalsSubject) {
	b.keeping(t, 1, 9)
	now := time.Now().Truncate(time.Microsecond)
	for name, q := range map[string]service.TotalsQuery{
		"by week":       {By: "week"},
		"turned around": {Since: service.At(now), Until: service.At(now.Add(-time.Hour))},
		"empty":         {Since: service.At(now), Until: service.At(now)},
		"too long":      {Since: service.At(now.AddDate(-2, 0, 0)), Until: service.At(now)},
	} {
		if got, err := b.of.ZoneTotals(t.Context(), 1, q); !errors.Is(err, service.ErrInvalid) {
			t.Errorf("%s: %+v, %v", name, got, err)
		}
		if got, err := b.of.BucketTotals(t.Context(), at(1, "alice"), q); !errors.Is(err, service.ErrInvalid) {
			t.Errorf("%s: %+v, %v", name, got, err)
		}
	}
	last := b.ofZone(
		t, 1, service.TotalsQuery{By: service.SpanDay, Since: service.At(now.AddDate(0, 0, -366)), Until: service.At(now)})
	if !last.Since.Equal(service.SpanDay.Begin(now.AddDate(0, 0, -366))) || !last.Until.Equal(now.UTC()) ||
		len(last.Spans) != 0 {
		t.Errorf("%+v", last)
	}
}
