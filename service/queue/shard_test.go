package queue_test

import (
	"context"
	"strconv"
	"sync"
	"testing"
	"time"

	"velocityd/service"
	"velocityd/service/queue"
)

// shardedStore tells of each call which shards its checks lie on, and lets calls for one shard
// wait until it is told otherwise.
type shardedStore struct {
	away    int
	mended  chan struct{}
	mu      sync.Mutex
	batches []map[int]bool
}

// shardOf puts a bucket on the shard that its zone says.
func shardOf(b service.Bucket) (shard, shards int) { return int(b.ZoneID) % 3, 3 }

func (s *shardedStore) CheckAll(_ context.Context, call service.Call) ([]service.Decision, error) {
	shards := map[int]bool{}
	for _, check := range call.Checks {
		for _, b := range check.Buckets {
			shard, _ := shardOf(b)
			shards[shard] = true
		}
	}
	s.mu.Lock()
	s.batches = append(s.batches, shards)
	s.mu.Unlock()
	if shards[s.away] {
		<-s.mended
	}
	return make([]service.Decision, len(call.Checks)), nil
}

func TestSilentShardsLaneHoldsUpNoOther(t *testing.T) {
	t.Parallel()
	for _, lanes := range []int{1, 2, 4, 9} {
		t.Run(strconv.Itoa(lanes), func(t *testing.T) {
			t.Parallel()
			store := &shardedStore{away: 1, mended: make(chan struct{})}
			c := queue.NewCoalescer(store, queue.CoalescerOptions{Lanes: lanes, ShardOf: shardOf, Timeout: time.Minute})
			ask := func(buckets ...service.Bucket) {
				if _, err := c.CheckAll(context.Background(),
					service.Call{Checks: []service.Check{{Buckets: buckets}}}); err != nil {
					t.Error(err)
				}
			}
			bucket := func(zone int64, i int) service.Bucket { return service.Bucket{ZoneID: zone, Key: strconv.Itoa(i)} }
			var stuck, others sync.WaitGroup
			for i := range 100 {
				stuck.Go(func() { ask(bucket(1, i)) })
				stuck.Go(func() { ask(bucket(1, i), bucket(2, i)) })
				others.Go(func() { ask(bucket(2, i)) })
				others.Go(func() { ask(bucket(3, i)) })
			}
			others.Wait() // while all calls for the shard are stuck
			close(store.mended)
			stuck.Wait()
			for _, shards := range store.batches {
				if len(shards) > 1 && !shards[1] {
					t.Errorf("a call names shards %v: want one, or those of checks over several", shards)
				}
			}
		})
	}
}

func TestUnshardedStoreHasAsManyLanesAsAsked(t *testing.T) {
	t.Parallel()
	for shards, want := range map[int]int{0: 4, 1: 4, 2: 8, 3: 7, 9: 13, 1000: 68} {
		c := queue.NewCoalescer(&shardedStore{}, queue.CoalescerOptions{
			Lanes: 4, ShardOf: func(service.Bucket) (int, int) { return 0, shards },
		})
		if lone, _, _ := c.Use(); lone.Lanes != want {
			t.Errorf("%d shards: got %d lanes, want %d", shards, lone.Lanes, want)
		}
	}
}
