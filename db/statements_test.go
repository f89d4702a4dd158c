package db

import (
	"context"
	"slices"
	"testing"
	"time"

	"velocityd/db/dbtest"
	"velocityd/db/engine"
	"velocityd/db/session"
	"velocityd/service"
	"velocityd/service/event"
	"velocityd/service/servicetest"
)

// byStatements is a bench whose reports, peeks and releases are carried out by statements, beside
// procedures and triggers that do the rest.
type byStatements struct {
	bench
	plain *Store
}

func newByStatements(t *testing.T, on *dbtest.Engine) byStatements {
	t.Helper()
	b := newBench(t, on.Rows(t))
	plain := connect(t, b.Database, session.Options{Engine: engine.TiDB, LockWait: time.Minute})
	b.OutcomeStore = plain
	return byStatements{b, plain}
}

func (b byStatements) Peek(ctx context.Context, bucket service.Bucket) (service.Peek, error) {
	return b.plain.Peek(ctx, bucket)
}

// EventsOf returns each event once: the trigger on zone_audit tells those of an edit, and so does the edit by statements.
func (b byStatements) EventsOf(tb testing.TB, bucket service.Bucket) []event.Event {
	tb.Helper()
	return slices.CompactFunc(b.bench.EventsOf(tb, bucket), func(one, next event.Event) bool {
		return one.Type == next.Type && one.At.Equal(next.At.Time)
	})
}

func (b byStatements) Release(ctx context.Context, bucket service.Bucket, principal, reason string) error {
	return b.plain.Release(ctx, bucket, principal, reason)
}

func TestStatementsKeepTheContractBesideProcedures(t *testing.T) {
	t.Parallel()
	dbtest.One(t, func(t *testing.T, engine *dbtest.Engine) {
		servicetest.ExerciseSome(t, func(t *testing.T) servicetest.Subject { return newByStatements(t, engine) }, []string{
			"ReleaseGivesAllPlacesBack", "ReleaseEndsALockoutAndForgetsIt", "ReleaseRacesWithChecks", "AReleaseAndTheLockoutThatItEndsAreTold",
			"PeekTellsWhatTheNextAttemptMeets", "SuccessResetsTheBucketsThatWantIt", "OutcomeByAttemptIDSpeaksForTheWholeCheck",
			"ReportsRacingWithChecksLoseAndInventNoPlaces", "RacingReportsOfOneAttemptAgreeOnOneOutcome", "ReportsOfABatchAreTakenInOrder",
		})
	})
}
