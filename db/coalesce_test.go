package db

import (
	"context"
	"testing"
	"time"

	"velocityd/db/dbtest"
	"velocityd/service"
	"velocityd/service/queue"
	"velocityd/service/servicetest"
)

// coalesce puts a Coalescer in front of a store until the test's end.
func coalesce(t *testing.T, store service.CheckStore, o queue.CoalescerOptions) *queue.Coalescer {
	t.Helper()
	c := queue.NewCoalescer(store, o)
	dbtest.AtEnd(t, func() {
		if err := c.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return c
}

func TestCoalescedStoreKeepsTheContract(t *testing.T) {
	t.Parallel()
	dbtest.One(t, func(t *testing.T, engine *dbtest.Engine) {
		servicetest.ExerciseSome(t, func(t *testing.T) servicetest.Subject {
			b := newBench(t, engine.Rows(t))
			return b.asking(coalesce(t, b.store, queue.CoalescerOptions{Lanes: 2, Timeout: 2 * time.Minute}))
		}, []string{
			"AdmitsExactlyRateUnderContention", "OppositeOrderNeverDeadlocks", "FirstUseOfManyKeysAtOnce", "LargeBatchIsAnsweredInFull",
			"BatchIsDecidedInOrder", "BatchMixesAllowedDeniedAndBad", "ParallelRetriesGetOneAnswer", "ASecretIsChargedOnceUnderContention",
			"KeyKindEditedBesideChecksFailsNone", "ReleaseRacesWithChecks",
		})
	})
}
