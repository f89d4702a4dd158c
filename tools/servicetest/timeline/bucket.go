package timeline

import (
	"context"
	"errors"
	"math"
	"slices"
	"testing"
	"time"

	"velocityd/service"
)

// The operations of a timeline other than checks. The time at which a report or release
// was carried out is not known, so they are left out while something is about to end.

// lookAtTheClock sets the oracle's clock to the subject's time.
func (l *timeline) lookAtTheClock(t *testing.T) {
	t.Helper()
	*l.now = l.peek(t, l.bucket(t)).At.Time
}

// passesSoon reports whether instant may pass before the subject has answered. The
// lengths of time in a timeline are whole minutes, give or take a microsecond, so few
// instants pass soon.
func (l *timeline) passesSoon(instant time.Time) bool {
	return instant.After(*l.now) && instant.Before(l.now.Add(20*time.Second))
}

// dependsOnSecond reports whether the result of a report or release depends on the
// second at which it is carried out.
func (l *timeline) dependsOnSecond() bool {
	ctx := context.Background()
	zones, _ := l.memory.Zones(ctx) // none of its readings fails
	for _, zone := range zones {
		overrides, _ := l.memory.Overrides(ctx, zone.ID, 0, math.MaxInt)
		if slices.ContainsFunc(overrides, func(o service.Override) bool { return l.passesSoon(o.ExpiresAt.Time) }) {
			return true
		}
		terms := []service.Term{zone.Term()}
		for _, o := range overrides {
			terms = append(terms, zone.TermUnder(&o))
		}
		if l.endsSoon(zone, terms) {
			return true
		}
	}
	return false
}

// endsSoon reports whether a txn of a zone ends soon under one of these terms, or its reservation does.
func (l *timeline) endsSoon(zone service.Zone, terms []service.Term) bool {
	for _, bucket := range l.memory.Buckets() {
		if bucket.ZoneID != zone.ID {
			continue
		}
		for _, txn := range l.memory.Txns(bucket) {
			ends := func(term service.Term) bool { return l.passesSoon(term.Until(txn.CreatedAt.Time)) }
			if l.passesSoon(txn.CreatedAt.Add(zone.ReserveTTL)) || slices.ContainsFunc(terms, ends) {
				return true
			}
		}
	}
	return false
}

// sameAge reports whether the txns of a check have the same time. They differ only if
// the test has aged some of them.
func (l *timeline) sameAge(id uint64) bool {
	txns := l.memory.TxnsOfCheck(id)
	return !slices.ContainsFunc(txns, func(txn service.Txn) bool { return !txn.CreatedAt.Equal(txns[0].CreatedAt.Time) })
}

// reportable returns the id of an attempt whose outcome may be reported by it, or "". The id is not known if its
// check was refused or it has expired.
func (l *timeline) reportable() string {
	if len(l.attempts) == 0 {
		return ""
	}
	id := pick(l.random, l.attempts...).AttemptID
	first, isKnown := l.memory.Remembered(id)
	if isKnown && (l.passesSoon(first.ExpiresAt.Time) || !l.sameAge(first.Decision.TxnID())) {
		return ""
	}
	return id
}

// reportSome reports a few outcomes in one call. Some are reported again, and some are
// of unknown txns.
func (l *timeline) reportSome(t *testing.T) {
	t.Helper()
	l.lookAtTheClock(t)
	if l.dependsOnSecond() || len(l.reported) == 0 {
		return
	}
	var reports, theirs []service.Report
	for range 1 + l.random.IntN(6) {
		r := service.Report{TxnID: pick(l.random, l.reported...), Outcome: service.OutcomeSuccess}
		if l.random.IntN(3) == 0 {
			r.Outcome = service.OutcomeFailure
		}
		same := service.Report{TxnID: l.ids[r.TxnID], Outcome: r.Outcome}
		if !l.sameAge(same.TxnID) {
			continue
		}
		switch attempt := l.reportable(); {
		case l.random.IntN(20) == 0:
			r.TxnID, same.TxnID = 1<<62, 1<<62
		case attempt != "" && l.random.IntN(3) == 0:
			r.TxnID, r.AttemptID = 0, attempt
			same = r
		}
		reports, theirs = append(reports, r), append(theirs, same)
	}
	if len(reports) == 0 {
		return
	}
	want, err := l.oracle.ReportAll(context.Background(), theirs)
	if err != nil {
		t.Fatal(err)
	}
	for i := range want {
		for _, kind := range []error{service.ErrNotFound, service.ErrConflict} {
			if errors.Is(want[i], kind) {
				want[i] = kind
			}
		}
	}
	got, err := l.ReportAll(context.Background(), reports)
	if err != nil || len(got) != len(reports) {
		t.Fatalf("got %d answers to %d reports, %v", len(got), len(reports), err)
	}
	for i := range want {
		if !errors.Is(got[i], want[i]) {
			t.Errorf("report %+v: got %v, want %v", reports[i], got[i], want[i])
		}
	}
	l.compareTxns(t)
}

func (l *timeline) releaseOne(t *testing.T) {
	t.Helper()
	l.lookAtTheClock(t)
	if l.dependsOnSecond() {
		return
	}
	bucket := l.bucket(t)
	if err := l.Release(context.Background(), bucket, "operator", "exercise"); err != nil {
		t.Fatal(err)
	}
	if err := l.oracle.Release(context.Background(), bucket, "operator", "exercise"); err != nil {
		t.Fatal(err)
	}
	l.compareBucket(t, bucket)
}

// peek looks into a bucket of the subject.
func (l *timeline) peek(t *testing.T, bucket service.Bucket) service.Peek {
	t.Helper()
	peek, err := l.Peek(context.Background(), bucket)
	if err != nil {
		t.Fatal(err)
	}
	return peek
}

func (l *timeline) peekOne(t *testing.T) {
	t.Helper()
	bucket := l.bucket(t)
	got := l.peek(t, bucket)
	*l.now = got.At.Time
	want, err := l.oracle.Peek(context.Background(), bucket)
	if err != nil {
		t.Fatal(err)
	}
	same := got.Bucket == want.Bucket && got.Mode == want.Mode && got.Rate == want.Rate && got.Window == want.Window &&
		got.Velocity == want.Velocity && got.Remaining == want.Remaining &&
		got.RetryAfter == want.RetryAfter && got.ResetAfter == want.ResetAfter &&
		got.LockedUntil.Equal(want.LockedUntil.Time) && SameOverride(got.Override, want.Override) &&
		len(got.Txns) == len(want.Txns)
	if !same {
		t.Errorf("peek:\n got %+v, override %+v\nwant %+v, override %+v\nzone %+v",
			got, got.Override, want, want.Override, l.zones[bucket.ZoneID])
		return
	}
	for i := range want.Txns {
		l.compareTxn(t, got.Txns[i], want.Txns[i])
	}
}

// SameOverride says that two overrides are one, or both nil, besides their ids.
func SameOverride(a, b *service.Override) bool {
	if a == nil || b == nil {
		return a == b
	}
	x, y := *a, *b
	x.ID, x.ExpiresAt.Time, y.ID, y.ExpiresAt.Time = 0, time.Time{}, 0, time.Time{}
	return x == y && a.ExpiresAt.Equal(b.ExpiresAt.Time)
}

func (l *timeline) compareTxns(t *testing.T) {
	t.Helper()
	for _, bucket := range l.memory.Buckets() {
		l.compareBucket(t, bucket)
	}
}

func (l *timeline) compareBucket(t *testing.T, bucket service.Bucket) {
	t.Helper()
	got, want := l.Txns(t, bucket), l.oracle.Txns(t, bucket)
	if len(got) != len(want) {
		t.Errorf("%+v has %d txns, want %d", bucket, len(got), len(want))
		return
	}
	for i := range want {
		l.compareTxn(t, got[i], want[i])
	}
}

func (l *timeline) compareTxn(t *testing.T, got, want service.Txn) {
	t.Helper()
	mine := got
	mine.ID = l.ids[got.ID]
	mine.OverrideID = l.deny(got.OverrideID, want.OverrideID)
	mine.CreatedAt, mine.LastAt = want.CreatedAt, want.LastAt
	if mine.UncountedAt.IsZero() == want.UncountedAt.IsZero() {
		mine.UncountedAt = want.UncountedAt
	}
	if (mine.CheckID == 0) == (want.CheckID == 0) { // its value is the store's own
		mine.CheckID = want.CheckID
	}
	if mine != want || !got.CreatedAt.Equal(want.CreatedAt.Time) || !got.LastAt.Equal(want.LastAt.Time) {
		t.Errorf("txn:\n got %+v\nwant %+v", got, want)
	}
}
