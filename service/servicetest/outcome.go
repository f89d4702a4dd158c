package servicetest

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"velocityd/service"
)

func outcomeClaims() map[string]claim {
	return map[string]claim{
		"OutcomeSpeaksForTheWholeCheck":                outcomeSpeaksForTheWholeCheck,
		"ReportsOfABatchAreTakenInOrder":               reportsOfABatchAreTakenInOrder,
		"SuccessGivesThePlaceBackWhereFailuresCount":   successGivesThePlaceBack,
		"ReservationCountsUntilTheOutcomeIsKnown":      reservationCounts,
		"SuccessAfterTheReservationIsAConflict":        successAfterTheReservation,
		"SuccessResetsTheBucketsThatWantIt":            successResetsTheBucket,
		"SuccessLeavesALockoutAlone":                   successLeavesALockoutAlone,
		"ParallelGuessesNeverHoldMoreThanTheirPlaces":  parallelGuesses,
		"RacingReportsOfOneTxnAgreeOnOneOutcome":       racingReportsAgree,
		"ReportsRacingWithChecksLoseAndInventNoPlaces": reportsRacingWithChecks,
		"ManyReportsInOneCall":                         manyReportsInOneCall,
	}
}

const (
	success = service.OutcomeSuccess
	failure = service.OutcomeFailure
)

func outcomeSpeaksForTheWholeCheck(t *testing.T, b subject) {
	b.zone(t, 1, 2, time.Hour)
	b.zone(t, 2, 9, time.Hour)
	user, addr := at(1, "alice"), at(2, "203.0.113.9")
	first, second, blocked := b.check(t, user, addr), b.check(t, addr, user), b.check(t, user, addr)
	for _, txn := range b.Txns(t, user) {
		if txn.Outcome != "" {
			t.Errorf("nobody has reported, but txn %+v has an outcome", txn)
		}
	}
	b.wantReport(t, first.Verdicts[1].TxnID, success, nil) // any of the check's txns may be named
	b.wantReport(t, first.Verdicts[0].TxnID, success, nil) // again
	b.wantReport(t, first.Verdicts[1].TxnID, failure, service.ErrConflict)
	b.wantReport(t, second.Verdicts[0].TxnID, failure, nil)
	b.wantReport(t, second.Verdicts[1].TxnID, failure, nil)
	b.wantReport(t, second.Verdicts[1].TxnID, success, service.ErrConflict)
	for _, v := range blocked.Verdicts {
		b.wantReport(t, v.TxnID, success, service.ErrConflict)
		b.wantReport(t, v.TxnID, failure, service.ErrConflict)
	}
	b.wantReport(t, blocked.Verdicts[1].TxnID+1000, success, service.ErrNotFound)
	for _, bucket := range []service.Bucket{user, addr} {
		for i, want := range []service.Outcome{success, failure, ""} {
			if txn := b.Txns(t, bucket)[i]; txn.Outcome != want {
				t.Errorf("%+v, txn %d of 3: outcome %q, want %q", bucket, i+1, txn.Outcome, want)
			}
		}
	}
	// In a zone that counts attempts a success changes nothing else.
	if recorded, counted := b.counted(t, user); recorded != 3 || counted != 2 {
		t.Errorf("recorded %d, counted %d, want 3 and 2", recorded, counted)
	}
}

func reportsOfABatchAreTakenInOrder(t *testing.T, b subject) {
	b.zone(t, 1, 3, time.Hour)
	var ids []uint64
	for _, d := range b.all(t, one(1, "a"), one(1, "a"), one(1, "a"), one(1, "a")) {
		ids = append(ids, d.TxnID())
	}
	b.wantReports(t, []service.Report{
		{TxnID: ids[1], Outcome: failure},
		{TxnID: ids[0], Outcome: success},
		{TxnID: ids[0], Outcome: failure},
		{TxnID: ids[3], Outcome: success},
		{TxnID: 1 << 60, Outcome: success},
		{TxnID: ids[0], Outcome: success},
		{TxnID: ids[1], Outcome: failure},
		{TxnID: ids[2], Outcome: success},
	}, []error{
		nil, nil, service.ErrConflict, service.ErrConflict, service.ErrNotFound, nil, nil, nil,
	})
	for i, want := range []service.Outcome{success, failure, success, ""} {
		if txn := b.Txns(t, at(1, "a"))[i]; txn.Outcome != want {
			t.Errorf("txn %d: outcome %q, want %q", i, txn.Outcome, want)
		}
	}
}

func successGivesThePlaceBack(t *testing.T, b subject) {
	b.set(t, service.Zone{ID: 1, Rate: 2, Window: time.Hour, Counts: service.CountsFailures})
	b.zone(t, 2, 9, time.Hour)
	user, addr := at(1, "alice"), at(2, "203.0.113.9")
	for i := range 4 {
		d := b.check(t, user, addr)
		if d.Blocked || d.Verdicts[0].Velocity != 1 {
			t.Fatalf("attempt %d after successes alone: %+v", i, d)
		}
		b.wantReport(t, d.Verdicts[1].TxnID, success, nil)
	}
	if recorded, counted := b.counted(t, user); recorded != 4 || counted != 0 {
		t.Errorf("user: recorded %d, counted %d, want 4 and 0", recorded, counted)
	}
	if recorded, counted := b.counted(t, addr); recorded != 4 || counted != 4 {
		t.Errorf("the address's zone counts attempts: recorded %d, counted %d, want 4 and 4", recorded, counted)
	}
	for range 2 {
		b.wantReport(t, b.check(t, user, addr).TxnID(), failure, nil)
	}
	if d := b.check(t, user, addr); !d.Blocked || !d.Verdicts[0].Blocked {
		t.Errorf("two failures fill the bucket, but: %+v", d)
	}
	// The setting holds that the zone has at the report.
	b.zone(t, 1, 9, time.Hour)
	d := b.check(t, user)
	b.wantReport(t, d.TxnID(), success, nil)
	if _, counted := b.counted(t, user); counted != 3 {
		t.Errorf("counted %d, want 3: by now the zone counts attempts", counted)
	}
}

func reservationCounts(t *testing.T, b subject) {
	b.set(t, service.Zone{ID: 1, Rate: 2, Window: time.Hour, Counts: service.CountsFailures, ReserveTTL: 10 * time.Minute})
	alice := at(1, "alice")
	first, second := b.check(t, alice), b.check(t, alice)
	if d := b.check(t, alice); !d.Blocked {
		t.Errorf("two attempts without an outcome fill the bucket, but: %+v", d)
	}
	b.wantReport(t, first.TxnID(), success, nil)
	third := b.check(t, alice)
	if third.Blocked || third.Verdicts[0].Velocity != 2 {
		t.Errorf("after one success the bucket has room for one, but: %+v", third)
	}
	// Whoever does not report has failed, and counts for the window.
	b.Age(t, alice, 50*time.Minute)
	if d := b.check(t, alice); !d.Blocked {
		t.Errorf("reservations that ran out are failures, but: %+v", d)
	}
	b.Age(t, alice, 10*time.Minute)
	if d := b.check(t, alice); d.Blocked || d.Verdicts[0].Velocity != 1 {
		t.Errorf("after the window: %+v", d)
	}
	b.wantReport(t, second.TxnID(), failure, nil)
}

func successAfterTheReservation(t *testing.T, b subject) {
	b.set(t, service.Zone{ID: 1, Rate: 9, Window: time.Hour, Counts: service.CountsFailures, ReserveTTL: 10 * time.Minute})
	b.set(t, service.Zone{ID: 2, Rate: 9, Window: time.Hour, Counts: service.CountsFailures}) // its default is the window
	b.zone(t, 3, 9, time.Minute)
	for _, test := range []struct {
		name    string
		buckets []service.Bucket
		age     time.Duration
		success error
	}{
		{"before the end", []service.Bucket{at(1, "a")}, 9 * time.Minute, nil},
		{"at the end", []service.Bucket{at(1, "b")}, 10 * time.Minute, service.ErrConflict},
		{"by default before the window's end", []service.Bucket{at(2, "c")}, 59 * time.Minute, nil},
		{"by default after it", []service.Bucket{at(2, "d")}, time.Hour, service.ErrConflict},
		{"where attempts count, at any time", []service.Bucket{at(3, "e")}, 2 * time.Hour, nil},
		{"for the whole check", []service.Bucket{at(1, "f"), at(3, "f")}, 11 * time.Minute, service.ErrConflict},
		{"the other way round", []service.Bucket{at(3, "g"), at(2, "g")}, 59 * time.Minute, nil},
		{"where both count failures", []service.Bucket{at(1, "h"), at(2, "h")}, 11 * time.Minute, service.ErrConflict},
	} {
		d := b.check(t, test.buckets...)
		last := d.Verdicts[len(d.Verdicts)-1].TxnID
		b.age(t, test.age, test.buckets...)
		b.wantReport(t, last, success, test.success)
		if test.success == nil {
			b.age(t, time.Hour, test.buckets...)
			b.wantReport(t, last, success, nil) // said in time, and said again
			continue
		}
		for _, bucket := range test.buckets {
			if txn := b.Txns(t, bucket)[0]; !txn.Counted || txn.Outcome != "" {
				t.Errorf("%s: a success that came too late left %+v", test.name, txn)
			}
		}
		b.wantReport(t, last, failure, nil) // that was known already
	}
}

func successResetsTheBucket(t *testing.T, b subject) {
	b.set(t, service.Zone{ID: 1, Rate: 3, Window: time.Hour, ResetOnSuccess: true})
	b.zone(t, 2, 9, time.Hour)
	user, addr := at(1, "alice"), at(2, "203.0.113.9")
	b.check(t, at(1, "bob"))
	b.check(t, user)
	b.Age(t, user, 2*time.Hour) // does not count any more
	b.check(t, user, addr)
	b.check(t, user)
	last := b.check(t, user, addr)
	if d := b.check(t, user, addr); !d.Blocked {
		t.Fatalf("the bucket should be full: %+v", d)
	}
	b.wantReport(t, last.TxnID(), success, nil)
	counted := []bool{true, false, false, false, false}
	for i, txn := range b.Txns(t, user) {
		if txn.Counted != counted[i] || txn.Blocked != (i == 4) {
			t.Errorf("txn %d of 5 after the reset: %+v", i+1, txn)
		}
	}
	if _, counted := b.counted(t, addr); counted != 2 {
		t.Errorf("the address's zone resets nothing: counted %d, want 2", counted)
	}
	if _, counted := b.counted(t, at(1, "bob")); counted != 1 {
		t.Errorf("another bucket of the zone was reset: counted %d, want 1", counted)
	}
	if d := b.check(t, user); d.Verdicts[0].Velocity != 1 {
		t.Errorf("after the reset: %+v, want the bucket as new", d)
	}
	failed := b.check(t, user)
	b.wantReport(t, failed.TxnID(), failure, nil)
	b.wantReport(t, last.TxnID(), success, nil) // said again, it resets nothing
	if _, counted := b.counted(t, user); counted != 3 {
		t.Errorf("counted %d, want the old txn and the 2 since the reset", counted)
	}
}

func successLeavesALockoutAlone(t *testing.T, b subject) {
	b.set(t, service.Zone{
		ID: 1, Rate: 1, Window: time.Minute, Counts: service.CountsFailures, ResetOnSuccess: true, Lockout: time.Hour,
	})
	alice := at(1, "alice")
	first := b.check(t, alice)
	if d := b.check(t, alice); d.RetryAfter() != time.Hour {
		t.Fatalf("the second attempt should lock the bucket: %+v", d)
	}
	b.wantReport(t, first.TxnID(), success, nil)
	if d := b.check(t, alice); !d.Blocked || d.Verdicts[0].Velocity != 0 {
		t.Errorf("after the success: %+v, want nothing counted and still locked", d)
	}
}

// parallelGuesses asks many checks before any outcome is reported. A store that counts
// only after the outcome would allow too many.
func parallelGuesses(t *testing.T, b subject) {
	const guesses, rate = 200, 5
	b.set(t, service.Zone{ID: 1, Rate: rate, Window: time.Hour, Counts: service.CountsFailures})
	var held, allowed, succeeded atomic.Int64
	var tooMany atomic.Bool
	errs := make([]error, guesses)
	var guessers sync.WaitGroup
	for i := range guesses {
		guessers.Go(func() {
			d, err := b.ask(context.Background(), one(1, "alice"))
			if err != nil || d.Blocked {
				errs[i] = err
				return
			}
			// Counted from after the decision until before the report, so never more than
			// really were open.
			if held.Add(1) > rate {
				tooMany.Store(true)
			}
			outcome := failure
			if allowed.Add(1)%8 != 0 {
				outcome = success
				succeeded.Add(1)
				held.Add(-1)
			}
			answers, err := b.ReportAll(context.Background(), []service.Report{{TxnID: d.TxnID(), Outcome: outcome}})
			errs[i] = errors.Join(append(answers, err)...)
		})
	}
	guessers.Wait()
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
	if tooMany.Load() {
		t.Errorf("more than %d guesses were undecided or failed at a time", rate)
	}
	failed := int(allowed.Load() - succeeded.Load())
	if recorded, counted := b.counted(t, at(1, "alice")); recorded != guesses || counted != failed {
		t.Errorf("recorded %d, counted %d, want %d and the %d failures", recorded, counted, guesses, failed)
	}
	for ; failed < rate; failed++ {
		b.wantReport(t, b.check(t, at(1, "alice")).TxnID(), failure, nil)
	}
	if d := b.check(t, at(1, "alice")); !d.Blocked {
		t.Errorf("after %d failures: %+v", rate, d)
	}
}

func racingReportsAgree(t *testing.T, b subject) {
	b.set(t, service.Zone{ID: 1, Rate: 9, Window: time.Hour, Counts: service.CountsFailures})
	b.zone(t, 2, 9, time.Hour)
	x, y := at(1, "x"), at(2, "y")
	d := b.check(t, x, y)
	const callers = 40
	outcomes := []service.Outcome{success, failure}
	var answers [callers]error
	var errs [callers]error
	var reporters sync.WaitGroup
	for i := range callers {
		reporters.Go(func() {
			report := service.Report{TxnID: d.Verdicts[i/2%2].TxnID, Outcome: outcomes[i%2]}
			var got []error
			if got, errs[i] = b.ReportAll(context.Background(), []service.Report{report}); errs[i] == nil {
				answers[i] = got[0]
			}
		})
	}
	reporters.Wait()
	if err := errors.Join(errs[:]...); err != nil {
		t.Fatal(err)
	}
	said := b.Txns(t, x)[0].Outcome
	if other := b.Txns(t, y)[0].Outcome; said == "" || other != said {
		t.Fatalf("the check's txns have outcomes %q and %q", said, other)
	}
	if _, counted := b.counted(t, x); (counted == 0) != (said == success) {
		t.Errorf("outcome %s, and %d counted", said, counted)
	}
	for i, answer := range answers {
		if conflict := errors.Is(answer, service.ErrConflict); conflict == (outcomes[i%2] == said) {
			t.Errorf("the outcome is %s, and reporter %d, who said %s, got %v", said, i, outcomes[i%2], answer)
		}
	}
}

// reportsRacingWithChecks runs many callers at once. Each checks two buckets, in one
// order or the other, and reports the outcome.
func reportsRacingWithChecks(t *testing.T, b subject) {
	const callers, rounds = 20, 5
	b.set(t, service.Zone{ID: 1, Rate: callers * rounds, Window: time.Hour, Counts: service.CountsFailures})
	b.set(t, service.Zone{ID: 2, Rate: callers * rounds, Window: time.Hour})
	x, y := at(1, "x"), at(2, "y")
	var errs [callers]error
	var group sync.WaitGroup
	for i := range callers {
		group.Go(func() {
			check := service.Check{Buckets: []service.Bucket{x, y}}
			if i%2 == 0 {
				check.Buckets = []service.Bucket{y, x}
			}
			for round := range rounds {
				d, err := b.ask(context.Background(), check)
				if err != nil || d.Blocked {
					errs[i] = errors.Join(errs[i], err, fmt.Errorf("blocked %v", d.Blocked))
					return
				}
				outcome := success
				if round == 0 {
					outcome = failure
				}
				answers, err := b.ReportAll(context.Background(), []service.Report{{TxnID: d.TxnID(), Outcome: outcome}})
				errs[i] = errors.Join(errs[i], err, errors.Join(answers...))
			}
		})
	}
	group.Wait()
	if err := errors.Join(errs[:]...); err != nil {
		t.Fatal(err)
	}
	if recorded, counted := b.counted(t, x); recorded != callers*rounds || counted != callers {
		t.Errorf("failures: recorded %d, counted %d, want %d and %d", recorded, counted, callers*rounds, callers)
	}
	if recorded, counted := b.counted(t, y); recorded != callers*rounds || counted != callers*rounds {
		t.Errorf("attempts: recorded %d, counted %d, want all %d", recorded, counted, callers*rounds)
	}
}

func manyReportsInOneCall(t *testing.T, b subject) {
	const each = service.MaxReports / 2
	b.set(t, service.Zone{ID: 1, Rate: each, Window: time.Hour, Counts: service.CountsFailures})
	b.zone(t, 2, each, time.Hour)
	checks := make([]service.Check, each)
	for i := range checks {
		checks[i] = service.Check{Buckets: []service.Bucket{at(1, "x"), at(2, fmt.Sprint("key-", i%7))}}
	}
	var reports []service.Report
	for i, d := range b.all(t, checks...) {
		outcome := success
		if i%5 == 0 {
			outcome = failure
		}
		for _, v := range d.Verdicts {
			reports = append(reports, service.Report{TxnID: v.TxnID, Outcome: outcome})
		}
	}
	b.wantReports(t, reports, make([]error, len(reports)))
	if _, counted := b.counted(t, at(1, "x")); counted != each/5 {
		t.Errorf("counted %d, want the %d failures", counted, each/5)
	}
}
