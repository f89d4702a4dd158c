package db

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"velocityd/db/dbtest"
	"velocityd/db/session"
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

// counted counts the calls of a store.
type counted struct {
	service.CheckStore
	calls *atomic.Int64
}

func (c counted) CheckAll(ctx context.Context, call service.Call) ([]service.Decision, error) {
	checks := call.Checks
	c.calls.Add(1)
	return c.CheckStore.CheckAll(ctx, service.Call{Checks: checks})
}

func TestTwoCoalescersShareOneLimit(t *testing.T) {
	t.Parallel()
	dbtest.One(t, func(t *testing.T, engine *dbtest.Engine) {
		const callers, each, rate = 200, 3, 17
		d := engine.Database(t, zone(1, rate, time.Hour), zone(2, callers*each, time.Hour))
		var instances []*queue.Coalescer
		var calls atomic.Int64
		for range 2 {
			store := connect(t, d, session.Options{LockWait: 20 * time.Second})
			instances = append(instances, coalesce(t, counted{store, &calls}, queue.CoalescerOptions{Lanes: 2, Timeout: time.Minute}))
		}
		var allowed atomic.Int64
		var group sync.WaitGroup
		for i := range callers {
			group.Go(func() {
				for range each {
					question := check(user("hot"))
					if i%3 == 0 { // with a bucket of its own besides
						question = check(user("hot"), service.Bucket{ZoneID: 2, Key: fmt.Sprint("address-", i)})
					}
					decisions, err := instances[i%2].CheckAll(context.Background(), service.Call{Checks: question})
					switch {
					case err != nil:
						t.Error(err)
					case decisions[0].Err != nil:
						t.Error(decisions[0].Err)
					case !decisions[0].Blocked:
						allowed.Add(1)
					}
				}
			})
		}
		group.Wait()
		txns := d.Txns(t, user("hot"))
		counted := 0
		for _, txn := range txns {
			if txn.Counted {
				counted++
			}
		}
		if allowed.Load() != rate || counted != rate || len(txns) != callers*each {
			t.Errorf("told %d that they may pass, counted %d of %d txns, want %d of %d",
				allowed.Load(), counted, len(txns), rate, callers*each)
		}
		if calls.Load() >= callers*each {
			t.Errorf("%d checks took %d calls: none were shared", callers*each, calls.Load())
		}
		d.Audit(t, zone(1, rate, time.Hour), zone(2, callers*each, time.Hour))
	})
}
