package servicetest

import (
	"fmt"
	"testing"
	"time"

	"velocityd/service"
)

func blockedClaims() map[string]claim {
	return map[string]claim{
		"TheFirstBlockedAttemptsAreTxnsAndTheOthersAreCounted": firstAreTxns,
		"BlockedAttemptsAreCountedExactlyUnderContention":      countedUnderContention,
		"AWindowBeginsANewSeriesOfBlockedAttempts":             windowBeginsSeries,
		"AnotherReasonHasItsOwnTxn":                            otherReasonHasTxn,
		"ALockoutsBeginningHasItsTxn":                          lockoutHasTxn,
		"TheBucketsOfABlockedCheckAreCountedByThemselves":      bucketsCountThemselves,
		"ARetryOfACountedAttemptIsCountedOnce":                 retryIsCountedOnce,
		"AttemptsThatPassAreNeverCountedAway":                  passingIsRecorded,
		"AZoneRecordsEveryBlockedAttemptUnlessItSaysOtherwise": everyOneIsRecorded,
		"ACountedAttemptHasNoOutcome":                          countedHasNoOutcome,
	}
}

// recording creates a zone that records the first blocked attempts of a bucket and window.
func (b subject) recording(tb testing.TB, id int64, rate, first int) {
	tb.Helper()
	b.set(tb, service.Zone{ID: id, Rate: rate, Window: time.Hour, RecordBlocked: first})
}

// wantAttempts wants the txns of a bucket to stand for so many attempts, each.
func (b subject) wantAttempts(tb testing.TB, bucket service.Bucket, want ...int) []service.Txn {
	tb.Helper()
	txns := b.Txns(tb, bucket)
	got := make([]int, len(txns))
	for i, txn := range txns {
		got[i] = txn.Attempts
		if txn.Attempts == 1 && !txn.LastAt.Equal(txn.CreatedAt.Time) || txn.LastAt.Before(txn.CreatedAt.Time) {
			tb.Errorf("the last of %d attempts was at %s, the first at %s", txn.Attempts, txn.LastAt.Time, txn.CreatedAt.Time)
		}
	}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		tb.Errorf("the txns stand for %v attempts, want %v: %+v", got, want, txns)
	}
	return txns
}

func firstAreTxns(t *testing.T, b subject) {
	b.recording(t, 1, 1, 3)
	alice := at(1, "alice")
	var d service.Decision
	for range 6 { // alone
		d = b.check(t, alice)
	}
	txns := b.wantAttempts(t, alice, 1, 1, 1, 3)
	if last := txns[3]; d.TxnID() != last.ID || !last.LastAt.Equal(d.CheckedAt.Time) || !d.Blocked ||
		d.Verdicts[0].Reason != service.ReasonFull {
		t.Errorf("answered %+v, want the txn that counts the attempt: %+v", d, last)
	}
	for _, d := range b.all(t, one(1, "alice"), one(1, "bob"), one(1, "alice"), one(1, "bob")) { // in a batch
		if d.Err != nil {
			t.Fatal(d.Err)
		}
	}
	b.wantAttempts(t, alice, 1, 1, 1, 5)
	bob := at(1, "bob")
	checks := make([]service.Check, 9)
	for i := range checks {
		checks[i] = one(1, "bob")
	}
	decisions := b.all(t, checks...) // the txn that counts is made in the same batch
	txns = b.wantAttempts(t, bob, 1, 1, 1, 8)
	if id := decisions[8].TxnID(); id != txns[3].ID || decisions[1].TxnID() != id || decisions[0].TxnID() != txns[2].ID {
		t.Errorf("answered %+v, want the txns %+v", decisions, txns)
	}
	b.check(t, bob)
	b.wantAttempts(t, bob, 1, 1, 1, 9)
	if seen := b.peek(t, bob).Txns; len(seen) != 4 || seen[0].Attempts != 9 || !seen[0].LastAt.After(seen[0].CreatedAt.Time) {
		t.Errorf("a peek shows %+v, want 9 attempts in the newest txn", seen)
	}
}

func countedUnderContention(t *testing.T, b subject) {
	b.recording(t, 1, 5, 4)
	b.recording(t, 2, 1000, 2)
	decisions := b.together(t, 60, func(i int) service.Check {
		check := service.Check{Buckets: []service.Bucket{at(1, "hot")}}
		if i%3 == 0 {
			check.Buckets = append(check.Buckets, at(2, fmt.Sprint("key-", i%2)))
		}
		if i%5 == 0 {
			check.AttemptID = fmt.Sprint("contended-", i)
		}
		return check
	})
	total := 0
	txns := b.Txns(t, at(1, "hot"))
	for _, txn := range txns {
		total += txn.Attempts
	}
	if n := allowedOf(decisions); n != 5 || len(txns) != 5+4 || total != 60 {
		t.Errorf("%d of 60 passed, and %d txns stand for %d attempts, want 5, 9 and 60", n, len(txns), total)
	}
	known := map[uint64]bool{}
	for _, txn := range txns {
		known[txn.ID] = true
	}
	for _, d := range decisions {
		if !known[d.Verdicts[0].TxnID] {
			t.Errorf("answered txn %d, which is none of the bucket", d.Verdicts[0].TxnID)
		}
	}
}

func windowBeginsSeries(t *testing.T, b subject) {
	b.set(t, service.Zone{ID: 1, Window: time.Hour, RecordBlocked: 1})
	b.set(t, service.Zone{ID: 2, Window: 72 * time.Hour, RecordBlocked: 1})
	b.SetOverride(t, limit(2, "short", 0, time.Minute))
	b.SetOverride(t, deny(1, "denied"))
	for bucket, length := range map[service.Bucket]time.Duration{
		at(1, "window"): time.Hour, at(1, "denied"): time.Hour, at(2, "day"): 24 * time.Hour, at(2, "short"): time.Minute,
	} {
		b.check(t, bucket)
		b.Age(t, bucket, length/2)
		b.all(t, service.Check{Buckets: []service.Bucket{bucket}}, service.Check{Buckets: []service.Bucket{bucket}})
		b.wantAttempts(t, bucket, 3)
		b.Age(t, bucket, length/2)
		b.check(t, bucket)
		b.check(t, bucket)
		b.wantAttempts(t, bucket, 3, 2)
		b.Age(t, bucket, length)
		b.all(t, service.Check{Buckets: []service.Bucket{bucket}}, service.Check{Buckets: []service.Bucket{bucket}})
		b.wantAttempts(t, bucket, 3, 2, 2)
	}
}

func otherReasonHasTxn(t *testing.T, b subject) {
	b.recording(t, 1, 1, 1)
	b.zone(t, 2, 0, time.Hour)
	alice := at(1, "alice")
	b.check(t, alice, at(2, "x")) // elsewhere
	b.check(t, alice, at(2, "x"))
	b.check(t, alice)
	b.check(t, alice) // full
	b.check(t, alice)
	b.SetOverride(t, deny(1, "alice"))
	b.check(t, alice)
	b.all(t, one(1, "alice"), one(1, "alice"))
	b.DeleteOverrides(t, 1)
	b.all(t, one(1, "alice"), one(1, "alice"))
	txns := b.wantAttempts(t, alice, 2, 1, 2, 3, 2)
	for i, want := range []service.Reason{service.ReasonElsewhere, "", service.ReasonFull, service.ReasonDenied, service.ReasonFull} {
		if txns[i].Reason != want || (txns[i].OverrideID != 0) != (want == service.ReasonDenied) {
			t.Errorf("txn %d is %+v, want the reason %q", i, txns[i], want)
		}
	}
}

func lockoutHasTxn(t *testing.T, b subject) {
	b.set(t, service.Zone{ID: 1, Rate: 1, Window: time.Hour, Lockout: 10 * time.Minute, RecordBlocked: 1})
	alice := at(1, "alice")
	for range 4 {
		b.check(t, alice)
	}
	b.Age(t, alice, 11*time.Minute)
	b.all(t, one(1, "alice"), one(1, "alice"), one(1, "alice"))
	txns := b.wantAttempts(t, alice, 1, 1, 2, 1, 2)
	for i, want := range []service.Reason{"", service.ReasonLockout, service.ReasonLocked, service.ReasonLockout, service.ReasonLocked} {
		if txns[i].Reason != want {
			t.Errorf("txn %d is %+v, want the reason %q", i, txns[i], want)
		}
	}
}

func bucketsCountThemselves(t *testing.T, b subject) {
	b.recording(t, 1, 0, 1)
	b.recording(t, 2, 0, 3)
	b.zone(t, 3, 0, time.Hour)
	buckets := []service.Bucket{at(1, "a"), at(2, "b"), at(3, "c")}
	check := service.Check{Buckets: buckets}
	decisions := b.all(t, check, check)
	for range 3 {
		decisions = append(decisions, b.check(t, buckets...))
	}
	decisions = append(decisions, b.all(t, check, check)...)
	for i, want := range [][]int{{7}, {1, 1, 5}, {1, 1, 1, 1, 1, 1, 1}} {
		txns := b.wantAttempts(t, buckets[i], want...)
		for n, d := range decisions {
			if got := d.Verdicts[i].TxnID; got != txns[min(n, len(txns)-1)].ID {
				t.Errorf("bucket %d, check %d: answered txn %d, want that of %+v", i, n, got, txns[min(n, len(txns)-1)])
			}
		}
	}
}

func retryIsCountedOnce(t *testing.T, b subject) {
	b.recording(t, 1, 0, 1)
	b.recording(t, 2, 0, 2)
	alice, other := at(1, "alice"), at(2, "other")
	first := b.attempt(t, "first", alice)
	counted := b.attempt(t, "counted", alice, other)
	again := b.attempt(t, "counted", other, alice)
	if counted.TxnID() != first.TxnID() || again.Verdicts[1] != counted.Verdicts[0] || again.Verdicts[0] != counted.Verdicts[1] ||
		!again.CheckedAt.Equal(counted.CheckedAt.Time) {
		t.Errorf("answered %+v, %+v and %+v, want one txn", first, counted, again)
	}
	for _, d := range b.all(t, service.Check{Buckets: []service.Bucket{alice}, AttemptID: "twice"},
		service.Check{Buckets: []service.Bucket{alice}, AttemptID: "twice"}) {
		if d.Err != nil || d.TxnID() != first.TxnID() {
			t.Errorf("answered %+v, want txn %d", d, first.TxnID())
		}
	}
	if txns := b.wantAttempts(t, alice, 3); txns[0].AttemptID != "first" {
		t.Errorf("the txn has the attempt_id %q, want that of its own attempt", txns[0].AttemptID)
	}
	b.wantAttempts(t, other, 1)
}

func passingIsRecorded(t *testing.T, b subject) {
	b.set(t, service.Zone{ID: 1, Rate: 1, Window: time.Hour, Mode: service.ModeShadow, RecordBlocked: 1})
	b.set(t, service.Zone{ID: 2, Rate: 0, Window: time.Hour, Mode: service.ModeOff, RecordBlocked: 1})
	b.recording(t, 3, 4, 1)
	for _, bucket := range []service.Bucket{at(1, "a"), at(2, "a"), at(3, "a")} {
		check := service.Check{Buckets: []service.Bucket{bucket}}
		b.check(t, bucket)
		b.check(t, bucket)
		b.all(t, check, check)
		b.wantAttempts(t, bucket, 1, 1, 1, 1)
	}
}

func everyOneIsRecorded(t *testing.T, b subject) {
	b.zone(t, 1, 0, time.Hour)
	alice := at(1, "alice")
	b.all(t, one(1, "alice"), one(1, "alice"), one(1, "alice"))
	b.check(t, alice)
	b.check(t, alice)
	b.wantAttempts(t, alice, 1, 1, 1, 1, 1)
	b.recording(t, 1, 0, 1) // from now on
	b.check(t, alice)
	b.check(t, alice)
	b.all(t, one(1, "alice"), one(1, "alice"))
	b.wantAttempts(t, alice, 1, 1, 1, 1, 1, 4)
	b.zone(t, 1, 0, time.Hour) // and again all
	b.check(t, alice)
	b.all(t, one(1, "alice"), one(1, "alice"))
	b.wantAttempts(t, alice, 1, 1, 1, 1, 1, 4, 1, 1, 1)
}

func countedHasNoOutcome(t *testing.T, b subject) {
	b.recording(t, 1, 0, 1)
	alice := at(1, "alice")
	b.check(t, alice)
	counted := b.check(t, alice)
	b.wantReport(t, counted.TxnID(), failure, service.ErrConflict)
	b.wantAttempts(t, alice, 2)
}
