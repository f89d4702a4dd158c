package main

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"velocityd/client"
	"velocityd/service"
	"velocityd/tools/enginetest"
	"velocityd/tools/servicetest"
)

// roundRobin asks a list of services one after the other.
type roundRobin struct {
	*enginetest.Database
	services []*client.Client
	turn     *atomic.Uint64
}

func (s roundRobin) next() *client.Client {
	return s.services[s.turn.Add(1)%uint64(len(s.services))]
}

func (s roundRobin) CheckAll(ctx context.Context, checks []service.Check) ([]service.Decision, error) {
	return s.next().CheckAll(ctx, checks)
}

func (s roundRobin) ReportAll(ctx context.Context, reports []service.Report) ([]error, error) {
	return s.next().ReportAll(ctx, reports)
}

// Peek asks again while the service is busy: a look-up has two seconds there,
// which many checks at once may take from it.
func (s roundRobin) Peek(ctx context.Context, bucket service.Bucket) (service.Peek, error) {
	for until := time.Now().Add(patience); ; {
		peek, err := s.next().Peek(ctx, bucket)
		if !errors.Is(err, service.ErrBusy) || time.Now().After(until) {
			return peek, err
		}
	}
}

func (s roundRobin) Attempt(ctx context.Context, id string) (service.Recall, error) {
	return s.next().Attempt(ctx, id)
}

func (s roundRobin) Release(ctx context.Context, bucket service.Bucket, principal, reason string) error {
	return s.next().Release(ctx, bucket, principal, reason)
}

func TestTwoInstancesKeepTheContractOfAStore(t *testing.T) {
	t.Parallel()
	enginetest.One(t, func(t *testing.T, engine *enginetest.Engine) {
		servicetest.ExerciseSome(t, func(t *testing.T) servicetest.Subject {
			bench := roundRobin{Database: engine.Rows(t), turn: &atomic.Uint64{}}
			for _, coalesce := range []string{"", "off"} { // one gathers checks and one does not
				i := start(t, environment{"VELOCITY_DSN": bench.DSN, "VELOCITY_COALESCE": coalesce},
					append([]string{"serve", "--max-conns", "8"}, slow...)...)
				service := patient(t, i)
				enginetest.AtEnd(t, service.Close)
				bench.services = append(bench.services, service)
			}
			return bench
		}, []string{
			"AdmitsExactlyRateUnderContention", "OppositeOrderNeverDeadlocks", "FirstUseOfManyKeysAtOnce",
			"ZoneChangesTakeEffectAtTheNextCheck",
			"EditedKeyKindTakesEffectAtTheNextCheck", "OverridesTakeEffectAtTheNextCheck", "ParallelRetriesGetOneAnswer",
			"RacingReportsOfOneAttemptAgreeOnOneOutcome", "ReleaseRacesWithChecks",
			"TheFirstBlockedAttemptsAreTxnsAndTheOthersAreCounted",
		})
	})
}
