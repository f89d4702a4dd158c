package servicetest

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"velocityd/service"
	"velocityd/tools/servicetest/steps"
)

func recallClaims() map[string]claim {
	return map[string]claim{
		"OutcomeByAttemptIDSpeaksForTheWholeCheck": script(`
			zone 1 rate=9
			zone 2 rate=9
			zone 3 rate=9
			check 1/alice 2/203.0.113.9 3/x id=first as=first -> pass
			check 1/alice 2/203.0.113.9 3/x id=second -> pass
			report id:first success
			report id:first success // again
			report id:first failure -> conflict
			report first.1 success
			report first.2 failure -> conflict
			check 1/alice 2/203.0.113.9 3/x id=first same=first
			report id:third failure -> unknown // in one call
			and id:second failure
			and first success
			and id:second success -> conflict
			and id:first success
			and id:second failure
			report id:none success -> unknown
			and id:nothing failure -> unknown
			outcomes 1/alice -> success failure
			outcomes 2/203.0.113.9 -> success failure
			outcomes 3/x -> success failure
		`),
		"OutcomeByAttemptIDOfABlockedAttemptIsAConflict": script(`
			zone 1 rate=1
			zone 2 rate=1 record_blocked=1
			check 1/recorded 2/counted id=allowed -> pass
			check 1/recorded id=recorded -> block
			report id:recorded success -> conflict
			report id:recorded failure -> conflict
			recall recorded -> block -
			check 2/counted id=first -> block
			report id:first success -> conflict
			check 2/counted id=counted -> block
			report id:counted success -> conflict
			report id:counted failure -> conflict
			recall counted -> block -
			report id:allowed failure
			recall allowed -> pass failure
		`),
		"OutcomeByAttemptIDGivesThePlaceBack": script(`
			zone 1 rate=1 counts=failures reserve_ttl=10m
			zone 2 rate=9 reset_on_success=true
			3x check 2/203.0.113.9 -> pass
			check 1/alice 2/203.0.113.9 id=a -> pass
			report id:a success
			check 1/alice 2/203.0.113.9 id=b -> pass
			count 1/alice -> 1 of 2
			count 2/203.0.113.9 -> 1 of 5
			age 1/alice 2/203.0.113.9 20m
			report id:b success -> conflict // its reservation ran out
			report id:b failure
		`),
		"OutcomeByAForgottenAttemptIDIsNotFound": script(`
			zone 1 rate=9 window=1m
			check 1/x id=id as=first -> pass
			age 1/x 9m
			report id:id success
			age 1/x 1m
			report id:id success -> unknown
			report first success // the txn is still there
			recall id -> unknown
			check 1/x id=id as=second -> pass // now the id names another attempt
			report id:id failure
			report second failure
			report first success
			recall id -> pass failure
		`),
		"AttemptIDsOfOutcomesAreComparedByteByByte":  attemptIDsOfOutcomes,
		"RacingReportsOfOneAttemptAgreeOnOneOutcome": racingReportsOfOneAttempt,
		"OutcomeRacingWithItsCheckIsTakenOrNotFound": outcomeRacingWithItsCheck,
		"AttemptIsRecalledAsItWasAnswered":           attemptIsRecalled,
	}
}

func attemptIDsOfOutcomes(t *testing.T, b subject) {
	b.zone(t, 1, 100, time.Hour)
	ids := []string{
		"a", "A", "a ", " a", "0", "00", ".", "..", "/", "a/b", "%", "%2F", "+", "?", "#", ";", `'`, `"`, `\`, "_", "null",
		"~", strings.Repeat("x", service.MaxAttemptIDLength), strings.Repeat("%", service.MaxAttemptIDLength),
	}
	var reports []service.Report
	for i, id := range ids {
		b.attempt(t, id, at(1, "alice"))
		outcome := []service.Outcome{success, failure}[i%2]
		b.wantOutcome(t, id, outcome, nil)
		reports = append(reports, service.Report{AttemptID: id, Outcome: outcome})
	}
	b.wantReports(t, reports, make([]error, len(reports)))
	for i, txn := range b.Txns(t, at(1, "alice")) {
		if txn.AttemptID != ids[i] || txn.Outcome != reports[i].Outcome {
			t.Errorf("%q: %+v, want %s", ids[i], txn, reports[i].Outcome)
		}
		if got := b.recall(t, ids[i]); got.AttemptID != ids[i] || got.Decision.TxnID() != txn.ID ||
			got.Outcome != txn.Outcome {
			t.Errorf("%q: recalled as %+v", ids[i], got)
		}
	}
}

func racingReportsOfOneAttempt(t *testing.T, b subject) {
	b.set(t, service.Zone{ID: 1, Rate: 9, Window: time.Hour, Counts: service.CountsFailures})
	b.zone(t, 2, 9, time.Hour)
	x, y := at(1, "x"), at(2, "y")
	d := b.attempt(t, "id", x, y)
	// A retry of the check is none of a report's business.
	retries := b.begin(
		8, func(int) service.Check { return service.Check{AttemptID: "id", Buckets: []service.Bucket{y, x}} })
	b.raceOutcomes(t, x, y, func(i int, outcome service.Outcome) service.Report {
		if i%4 > 1 {
			return service.Report{TxnID: d.Verdicts[1].TxnID, Outcome: outcome}
		}
		return service.Report{AttemptID: "id", Outcome: outcome}
	})
	retries(t)
	if recorded, _ := b.counted(t, x); recorded != 1 {
		t.Errorf("retries recorded %d txns, want 1", recorded)
	}
}

// outcomeRacingWithItsCheck reports while the check is under way. Only an answered check has an outcome.
func outcomeRacingWithItsCheck(t *testing.T, b subject) {
	b.zone(t, 1, 100, time.Hour)
	b.zone(t, 2, 100, time.Hour)
	x, y := at(1, "x"), at(2, "y")
	for round := range 10 {
		id := strings.Repeat("r", round+1)
		var early, late []error
		var earlyErr, lateErr error
		var racing sync.WaitGroup
		report := []service.Report{{AttemptID: id, Outcome: success}}
		racing.Go(func() { early, earlyErr = b.ReportAll(context.Background(), report) })
		racing.Go(func() {
			if _, lateErr = b.ask(context.Background(),
				service.Check{AttemptID: id, Buckets: []service.Bucket{x, y}}); lateErr == nil {
				late, lateErr = b.ReportAll(context.Background(), report)
			}
		})
		racing.Wait()
		if err := errors.Join(earlyErr, lateErr); err != nil {
			t.Fatal(err)
		}
		if late[0] != nil || early[0] != nil && !errors.Is(early[0], service.ErrNotFound) {
			t.Errorf("while the check was under way: %v; after its answer: %v", early[0], late[0])
		}
	}
	for _, bucket := range []service.Bucket{x, y} {
		for _, txn := range b.Txns(t, bucket) {
			if txn.Outcome != success {
				t.Errorf("%+v has no outcome", txn)
			}
		}
	}
}

func attemptIsRecalled(t *testing.T, b subject) {
	b.zone(t, 1, 2, time.Hour)
	b.set(t, service.Zone{ID: 2, Rate: 0, Window: 2 * time.Hour, Mode: service.ModeShadow})
	b.set(t, service.Zone{ID: 3, Rate: 0, Window: time.Minute, Mode: service.ModeOff})
	buckets := []service.Bucket{at(2, "203.0.113.9"), at(1, "zoë"), at(3, "z")}
	d := b.attempt(t, "id", buckets...)
	for _, outcome := range []service.Outcome{"", failure} {
		if outcome != "" {
			b.wantOutcome(t, "id", outcome, nil)
			b.set(t, service.Zone{ID: 1, Rate: 0, Window: time.Minute}) // changes no answer that was given
		}
		got := b.recall(t, "id")
		steps.WantSame(t, d, got.Decision)
		if got.AttemptID != "id" || !got.ExpiresAt.Equal(d.CheckedAt.Add(2*time.Hour)) || got.Outcome != outcome ||
			!slices.Equal(got.Decision.Zones(), []int64{2, 1, 3}) || len(got.Txns) != len(buckets) {
			t.Fatalf("recalled as %+v, outcome %q", got, got.Outcome)
		}
		for i, txn := range got.Txns {
			if want := b.Txns(t, buckets[i])[0]; txn != want {
				t.Errorf("txn %d: %+v, want %+v", i, txn, want)
			}
		}
	}
	b.check(t, at(1, "zoë")) // has no id
	for _, id := range []string{"", "i", "ID", "id "} {
		if got, err := b.Attempt(t.Context(), id); err == nil || errors.Is(err, service.ErrUndecided) {
			t.Errorf("%q: recalled as %+v, %v", id, got, err)
		}
	}
}
