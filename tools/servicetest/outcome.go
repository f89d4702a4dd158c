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

func outcomeClaims() map[string]claim { //nolint:funlen // a table of scripts
	return map[string]claim{
		"OutcomeSpeaksForTheWholeCheck": script(`
			zone 1 rate=2
			zone 2 rate=9
			check 1/alice 2/203.0.113.9 as=first -> pass
			check 2/203.0.113.9 1/alice as=second -> pass
			check 1/alice 2/203.0.113.9 as=blocked -> block
			outcomes 1/alice -> - - -
			report first.1 success // any of the check's txns may be named
			report first success
			report first.1 failure -> conflict
			report second failure
			report second.1 failure
			report second.1 success -> conflict
			report blocked success -> conflict
			report blocked failure -> conflict
			report blocked.1 success -> conflict
			report blocked.1 failure -> conflict
			report none success -> unknown
			outcomes 1/alice -> success failure -
			outcomes 2/203.0.113.9 -> success failure -
			count 1/alice -> 2 of 3 // in a zone that counts attempts a success changes nothing else
		`),
		"ReportsOfABatchAreTakenInOrder": script(`
			zone 1 rate=3
			check 1/a as=a -> pass
			and 1/a as=b -> pass
			and 1/a as=c -> pass
			and 1/a as=d -> block
			report b failure
			and a success
			and a failure -> conflict
			and d success -> conflict
			and none success -> unknown
			and a success
			and b failure
			and c success
			outcomes 1/a -> success failure success -
		`),
		"SuccessGivesThePlaceBackWhereFailuresCount": script(`
			zone 1 rate=2 counts=failures
			zone 2 rate=9
			check 1/alice 2/203.0.113.9 as=first -> pass v=1
			report first.1 success
			check 1/alice 2/203.0.113.9 as=second -> pass v=1
			report second.1 success
			count 1/alice -> 0 of 2
			count 2/203.0.113.9 -> 2 of 2 // attempts count there
			check 1/alice 2/203.0.113.9 as=third -> pass
			report third failure
			check 1/alice 2/203.0.113.9 as=fourth -> pass
			report fourth failure
			check 1/alice 2/203.0.113.9 -> block full
			zone 1 rate=9 // the setting holds that the zone has at the report
			check 1/alice as=last -> pass
			report last success
			count 1/alice -> 3 of 6
		`),
		"ReservationCountsUntilTheOutcomeIsKnown": script(`
			zone 1 rate=2 counts=failures reserve_ttl=10m
			check 1/alice as=first -> pass
			check 1/alice as=second -> pass
			check 1/alice -> block
			report first success
			check 1/alice -> pass v=2
			age 1/alice 50m // an attempt without a report has failed, and counts for the window
			check 1/alice -> block
			age 1/alice 10m
			check 1/alice -> pass v=1
			report second failure
		`),
		"SuccessAfterTheReservationIsAConflict": successAfterTheReservation,
		"SuccessResetsTheBucketsThatWantIt": script(`
			zone 1 rate=3 reset_on_success=true
			zone 2 rate=9
			check 1/bob -> pass
			check 1/alice -> pass
			age 1/alice 2h // does not count any more
			check 1/alice 2/203.0.113.9 -> pass
			check 1/alice -> pass
			check 1/alice 2/203.0.113.9 as=last -> pass
			check 1/alice 2/203.0.113.9 -> block
			report last success
			count 1/alice -> 1 of 5 // the old one
			count 2/203.0.113.9 -> 2 of 3 // whose zone resets nothing
			count 1/bob -> 1 of 1
			check 1/alice -> pass v=1
			check 1/alice as=failed -> pass
			report failed failure
			report last success // said again, it resets nothing
			count 1/alice -> 3 of 7
		`),
		"SuccessLeavesALockoutAlone": script(`
			zone 1 rate=1 window=1m counts=failures reset_on_success=true lockout=1h
			check 1/alice as=first -> pass
			check 1/alice -> block wait=1h
			report first success
			check 1/alice -> block locked v=0
		`),
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

// raceOutcomes makes many reports on a check of two buckets at once, each in a separate call and half of them of a
// success. It wants one outcome to be taken, and all others to be told so, and returns that outcome.
func (b subject) raceOutcomes(
	t *testing.T, x, y service.Bucket, report func(i int, outcome service.Outcome) service.Report,
) service.Outcome {
	t.Helper()
	const callers = 40
	outcomes := []service.Outcome{success, failure}
	var answers, errs [callers]error
	var reporters sync.WaitGroup
	for i := range callers {
		reporters.Go(func() {
			var got []error
			if got, errs[i] = b.ReportAll(context.Background(), []service.Report{report(i, outcomes[i%2])}); errs[i] == nil {
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
	for i, answer := range answers {
		if conflict := errors.Is(answer, service.ErrConflict); conflict == (outcomes[i%2] == said) {
			t.Errorf("the outcome is %s, and reporter %d, which said %s, got %v", said, i, outcomes[i%2], answer)
		}
	}
	return said
}

func racingReportsAgree(t *testing.T, b subject) {
	b.set(t, service.Zone{ID: 1, Rate: 9, Window: time.Hour, Counts: service.CountsFailures})
	b.zone(t, 2, 9, time.Hour)
	x, y := at(1, "x"), at(2, "y")
	d := b.check(t, x, y)
	said := b.raceOutcomes(t, x, y, func(i int, outcome service.Outcome) service.Report {
		return service.Report{TxnID: d.Verdicts[i/2%2].TxnID, Outcome: outcome}
	})
	if _, counted := b.counted(t, x); (counted == 0) != (said == success) {
		t.Errorf("outcome %s, and %d counted", said, counted)
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
