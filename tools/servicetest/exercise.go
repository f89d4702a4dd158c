// Package servicetest is Exercise, the suite that every store of checks must pass, and the suites of history, totals
// and reports. It is for tests only and must not know any engine.
package servicetest

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"testing"
	"time"

	"velocityd/service"
	"velocityd/service/event"
	"velocityd/service/memory"
	"velocityd/tools/servicetest/steps"
	"velocityd/tools/servicetest/timeline"
)

// Subject is a store under test, with the powers of a DBA: Exercise sets zones, reads records, and ages
// rows instead of waiting.
type Subject interface {
	// CheckAll takes keys as callers write them: it must go through a normalizing
	// service.Limiter. All other methods take normalised keys.
	Asker

	// SetZone creates a zone, or replaces all its settings.
	SetZone(tb testing.TB, zone service.Zone)
	// DeleteZone removes a zone; its txns stay.
	DeleteZone(tb testing.TB, id int64)
	// SetOverride adds an override, or replaces the one of the same key or prefix.
	SetOverride(tb testing.TB, o service.Override)
	// DeleteOverrides removes every override of a zone.
	DeleteOverrides(tb testing.TB, zoneID int64)
	// Age moves all times of a bucket into the past: those of its txns, the end of its
	// lockout, and the expiry of the attempt ids of its txns.
	Age(tb testing.TB, bucket service.Bucket, by time.Duration)
	// Txns returns every txn of a bucket by id.
	Txns(tb testing.TB, bucket service.Bucket) []service.Txn
	// EventsOf returns every event of a bucket by id.
	EventsOf(tb testing.TB, bucket service.Bucket) []event.Event
}

// Exercise tests that the store that open returns keeps the contracts of service.Checker and
// service.OutcomeStore, decides as service.Decide does, and explains each attempt that it blocks, if it is an
// Explainer. It calls open once for each claim; open must return a Subject without zones and txns. Checks reach
// the Subject through a service.Limiter, as in the service.
//
// The store need not keep the parts that allowed names.
func Exercise(t *testing.T, open func(t *testing.T) Subject, allowed ...Allowance) {
	exercise(t, open, claims(), allowed)
}

// mostOfSome is how many claims ExerciseSome takes at most.
const mostOfSome = 10

// ExerciseSome is Exercise with the named claims alone, at most ten. It is for a layer over a store that passes
// all of Exercise: the names are those of the claims that this layer could break.
func ExerciseSome(t *testing.T, open func(t *testing.T) Subject, names []string, allowed ...Allowance) {
	t.Helper()
	if len(names) > mostOfSome {
		t.Fatalf("%d claims named, of at most %d", len(names), mostOfSome)
	}
	all, named := claims(), make(map[string]claim, len(names))
	for _, name := range names {
		holds, ok := all[name]
		if !ok {
			t.Fatalf("no claim is named %q", name)
		}
		named[name] = holds
	}
	exercise(t, open, named, allowed)
}

func exercise(t *testing.T, open func(t *testing.T) Subject, some map[string]claim, allowed []Allowance) {
	t.Helper()
	for name, holds := range some {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := open(t)
			holds(t, subject{Subject: explaining(t, b), allowed: allowed})
		})
	}
}

// claims returns every claim by its name.
func claims() map[string]claim {
	all := make(map[string]claim)
	for _, part := range []map[string]claim{
		checkClaims(), batchClaims(), zoneClaims(), keyClaims(), attemptClaims(), outcomeClaims(), recallClaims(),
		lockoutClaims(),
		releaseClaims(), eventClaims(), modeClaims(), overrideClaims(), reasonClaims(), blockedClaims(), peekClaims(),
		periodClaims(), concurrentClaims(), secretClaims(), timelineClaims(),
	} {
		maps.Copy(all, part)
	}
	return all
}

// timelineClaims compare the answers of a subject with those of the store in memory.
func timelineClaims() map[string]claim {
	compared := func(exercise func(*testing.T, timeline.Subject, timeline.Options)) claim {
		return func(t *testing.T, b subject) {
			oracle := func(m *memory.Store) timeline.Subject { return InMemory(m) }
			exercise(t, b, timeline.Options{Oracle: oracle, Forgets: b.forgets()})
		}
	}
	return map[string]claim{
		"AgreesWithTheOracleOnRandomTimelines": compared(timeline.Exercise),
		"AgreesWithTheOracleOnALargeBatch":     compared(timeline.ExerciseBatch),
	}
}

// Allowance is a part of the contract that a store need not keep.
type Allowance int

// AttemptIDsOfShards allows a store to know an AttemptID on the shard of one of its check's buckets
// alone: used again with other buckets it may be a new attempt. With the same buckets it is a
// retry, as ever.
const AttemptIDsOfShards Allowance = 1

// patience is the deadline of a call. It is long, because machines may be slow.
const patience = 5 * time.Minute

// claim fails the test if a subject does not keep one part of the contract.
type claim func(t *testing.T, b subject)

// script returns a claim that is a sequence of steps: see steps.Run.
func script(text string) claim {
	return func(t *testing.T, b subject) { steps.Run(t, b, text) }
}

// subject adds helpers for claims to a Subject.
type subject struct {
	Subject
	allowed []Allowance
}

// forgets says that an AttemptID used again with other buckets may be a new attempt.
func (b subject) forgets() bool { return slices.Contains(b.allowed, AttemptIDsOfShards) }

// set creates a zone or replaces all its settings.
func (b subject) set(tb testing.TB, zone service.Zone) service.Zone {
	tb.Helper()
	zone.Description = "exercise"
	b.SetZone(tb, zone)
	return zone
}

// zone creates a zone with only rate and window set.
func (b subject) zone(tb testing.TB, id int64, rate int, window time.Duration) {
	tb.Helper()
	b.set(tb, service.Zone{ID: id, Rate: rate, Window: window})
}

func (b subject) all(tb testing.TB, checks ...service.Check) []service.Decision {
	tb.Helper()
	decisions, err := b.CheckAll(context.Background(), checks)
	if err != nil {
		tb.Fatalf("check %d checks: %v", len(checks), err)
	}
	if len(decisions) != len(checks) {
		tb.Fatalf("got %d decisions for %d checks", len(decisions), len(checks))
	}
	return decisions
}

// ask asks one check. The error is that of the call or that of the check.
func (b subject) ask(ctx context.Context, check service.Check) (service.Decision, error) {
	decisions, err := b.CheckAll(ctx, []service.Check{check})
	if err != nil {
		return service.Decision{}, err
	}
	return decisions[0], decisions[0].Err
}

func (b subject) check(tb testing.TB, buckets ...service.Bucket) service.Decision {
	tb.Helper()
	d := b.all(tb, service.Check{Buckets: buckets})[0]
	if d.Err != nil {
		tb.Fatalf("check refused: %v", d.Err)
	}
	return d
}

// counted returns how many txns of a bucket are recorded, and how many of them count.
func (b subject) counted(tb testing.TB, bucket service.Bucket) (recorded, counted int) {
	tb.Helper()
	txns := b.Txns(tb, bucket)
	for _, txn := range txns {
		if txn.Counted {
			counted++
		}
	}
	return len(txns), counted
}

// allowedOf counts the decisions that are not blocked.
func allowedOf(decisions []service.Decision) (n int) {
	for _, d := range decisions {
		if !d.Blocked {
			n++
		}
	}
	return n
}

// together asks n checks at once, each in a separate goroutine and call.
func (b subject) together(tb testing.TB, n int, check func(i int) service.Check) []service.Decision {
	tb.Helper()
	return b.begin(n, check)(tb)
}

// begin starts n checks and returns a function that waits for the answers.
func (b subject) begin(n int, check func(i int) service.Check) (answers func(testing.TB) []service.Decision) {
	decisions := make([]service.Decision, n)
	errs := make([]error, n)
	start := make(chan struct{})
	var callers sync.WaitGroup
	for i := range n {
		callers.Go(func() {
			<-start
			decisions[i], errs[i] = b.ask(context.Background(), check(i))
		})
	}
	close(start)
	return func(tb testing.TB) []service.Decision {
		tb.Helper()
		callers.Wait()
		if err := errors.Join(errs...); err != nil {
			tb.Fatalf("%d checks at once: %v", n, err)
		}
		return decisions
	}
}

// attempt asks one check with an attempt id.
func (b subject) attempt(tb testing.TB, id string, buckets ...service.Bucket) service.Decision {
	tb.Helper()
	d := b.all(tb, service.Check{Buckets: buckets, AttemptID: id})[0]
	if d.Err != nil {
		tb.Fatalf("attempt %s refused: %v", id, d.Err)
	}
	return d
}

// wantReport reports one outcome and wants an answer that wraps want, or nil.
func (b subject) wantReport(tb testing.TB, txnID uint64, outcome service.Outcome, want error) {
	tb.Helper()
	b.wantReports(tb, []service.Report{{TxnID: txnID, Outcome: outcome}}, []error{want})
}

// wantOutcome reports the outcome of one attempt by its id and wants an answer that wraps want, or nil.
func (b subject) wantOutcome(tb testing.TB, attemptID string, outcome service.Outcome, want error) {
	tb.Helper()
	b.wantReports(tb, []service.Report{{AttemptID: attemptID, Outcome: outcome}}, []error{want})
}

// recall returns the answer and the txns of an attempt.
func (b subject) recall(tb testing.TB, id string) service.Recall {
	tb.Helper()
	recall, err := b.Attempt(context.Background(), id)
	if err != nil {
		tb.Fatalf("attempt %q: %v", id, err)
	}
	return recall
}

func (b subject) wantReports(tb testing.TB, reports []service.Report, want []error) {
	tb.Helper()
	errs, err := b.ReportAll(context.Background(), reports)
	if err != nil || len(errs) != len(reports) {
		tb.Fatalf("got %d answers to %d reports, %v", len(errs), len(reports), err)
	}
	for i := range want {
		if !errors.Is(errs[i], want[i]) {
			tb.Errorf("report %d, %+v: got %v, want %v", i, reports[i], errs[i], want[i])
		}
	}
}

// age ages several buckets.
func (b subject) age(tb testing.TB, by time.Duration, buckets ...service.Bucket) {
	tb.Helper()
	for _, bucket := range buckets {
		b.Age(tb, bucket, by)
	}
}

func (b subject) peek(tb testing.TB, bucket service.Bucket) service.Peek {
	tb.Helper()
	peek, err := b.Peek(context.Background(), bucket)
	if err != nil {
		tb.Fatalf("peek: %v", err)
	}
	return peek
}

func (b subject) release(tb testing.TB, bucket service.Bucket) {
	tb.Helper()
	if err := b.Release(context.Background(), bucket, "operator", "exercise"); err != nil {
		tb.Fatalf("release: %v", err)
	}
}

func at(zone int64, key string) service.Bucket { return service.Bucket{ZoneID: zone, Key: key} }

func one(zone int64, key string) service.Check {
	return service.Check{Buckets: []service.Bucket{at(zone, key)}}
}
