package db

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"velocityd/db/session"
	"velocityd/internal/engine"
	"velocityd/service"
	"velocityd/tools/enginetest"
	"velocityd/tools/nightly"
	"velocityd/tools/servicetest"
)

// crowdZone is the zone of the checks that crowded adds, and crowd their number.
const (
	crowdZone = 1<<31 - 1
	crowd     = 10
)

// crowded decides all checks in batches: with others that it adds, so that they share a batch, and once in four times
// without.
type crowded struct{ store inBatches }

func (c crowded) CheckAll(ctx context.Context, call service.Call) ([]service.Decision, error) {
	checks := call.Checks
	if len(checks) == 0 {
		return c.store.CheckAll(ctx, service.Call{Checks: checks})
	}
	all := append([]service.Check(nil), checks...)
	others := crowd
	if rand.N(4) == 0 {
		others = 0
	}
	for range others {
		bucket := service.Bucket{ZoneID: crowdZone, Key: fmt.Sprint("other-", rand.N(1000))}
		all = append(all, service.Check{Buckets: []service.Bucket{bucket}})
	}
	decisions, err := c.store.CheckAll(ctx, service.Call{Checks: all})
	if err != nil {
		return nil, err
	}
	return decisions[:len(checks)], nil
}

func TestBatchesKeepTheContractAloneOrCrowded(t *testing.T) {
	t.Parallel()
	enginetest.Each(t, func(t *testing.T, engine *enginetest.Engine) {
		servicetest.Exercise(t, func(t *testing.T) servicetest.Subject {
			b := newBench(t, engine.Rows(t, zone(crowdZone, 1_000_000, time.Hour)))
			return b.asking(crowded{inBatches{b.store}})
		})
	})
}

func TestAnsweredIDsAreThoseOfTheRows(t *testing.T) {
	t.Parallel()
	enginetest.Each(t, func(t *testing.T, engine *enginetest.Engine) {
		bySeven := enginetest.AdminDSN(engine.Private(t, t.TempDir(), "--auto-increment-increment=7"), "")
		databases := map[string]func(t *testing.T) *enginetest.Database{
			"1": func(t *testing.T) *enginetest.Database { return engine.Database(t) },
			"7": func(t *testing.T) *enginetest.Database {
				d := enginetest.Empty(t, bySeven)
				enginetest.Migrate(t, d.DSN)
				return d
			},
		}
		for name, prepare := range map[string]string{
			"plain": "ALTER TABLE zone_txn REMOVE PARTITIONING",
			"partitioned": "ALTER TABLE zone_txn PARTITION BY RANGE COLUMNS (created_at) " +
				"(PARTITION old VALUES LESS THAN ('2020-01-01'), PARTITION today VALUES LESS THAN (MAXVALUE))",
		} {
			for increment, database := range databases {
				if (name == "plain") != (increment == "7") && !nightly.Is() { // each of the four values once
					continue
				}
				t.Run(name+" by "+increment, func(t *testing.T) {
					t.Parallel()
					d := database(t)
					enginetest.Exec(t, d.SQL, prepare)
					d.SetZone(t, zone(1, 20, time.Hour))
					d.SetZone(t, zone(2, 100, time.Hour))
					answers := writeAtOnce(t, d)
					if rows := d.Count(t, "SELECT COUNT(*) FROM zone_txn"); rows != len(answers) {
						t.Errorf("%d rows for %d answered ids", rows, len(answers))
					}
					for _, bucket := range answeredBuckets(answers) {
						for _, txn := range d.Txns(t, bucket) {
							// An answer holds no instants, and does not say whether the txn counts, and which check it is of.
							txn.CreatedAt.Time, txn.LastAt.Time, txn.Counted, txn.CheckID = time.Time{}, time.Time{}, false, 0
							if a := answers[txn.ID]; a != txn {
								t.Errorf("row %+v was answered as %+v", txn, a)
							}
						}
					}
					wantSettled(t, d, zone(1, 20, time.Hour), zone(2, 100, time.Hour))
				})
			}
		}
	})
}

// writeAtOnce asks checks of one bucket and of two, with and without an attempt id, by
// eight writers, and returns the answer for each txn.
func writeAtOnce(t *testing.T, d *enginetest.Database) map[uint64]service.Txn {
	t.Helper()
	const writers, calls, size = 8, 6, 30
	store := connect(t, d, session.Options{LockWait: 40 * time.Second})
	var mu sync.Mutex
	answers := map[uint64]service.Txn{}
	atOnce(writers, func(writer int) {
		for call := range calls {
			var checks []service.Check
			for i := range size {
				question := check(service.Bucket{ZoneID: 1, Key: fmt.Sprint("user-", rand.N(40))})[0]
				if i%3 == 0 {
					question.Buckets = append(question.Buckets, service.Bucket{ZoneID: 2, Key: fmt.Sprint("address-", rand.N(9))})
				}
				if call%2 == 0 && i%5 == 0 {
					question.AttemptID = fmt.Sprint(writer, "-", call, "-", i)
				}
				checks = append(checks, question)
			}
			decisions, err := store.CheckAll(t.Context(), service.Call{Checks: checks})
			if err != nil {
				t.Error(err)
				return
			}
			mu.Lock()
			for i, decision := range decisions {
				for _, v := range decision.Verdicts {
					answers[v.TxnID] = service.Txn{
						ID: v.TxnID, Bucket: v.Bucket, Blocked: decision.Blocked, WouldBlock: v.WouldBlock, Reason: v.Reason,
						AttemptID: checks[i].AttemptID, Attempts: 1,
					}
				}
			}
			mu.Unlock()
		}
	})
	return answers
}

// answeredBuckets are those of txns, each once.
func answeredBuckets(txns map[uint64]service.Txn) []service.Bucket {
	buckets := map[service.Bucket]struct{}{}
	for _, txn := range txns {
		buckets[txn.Bucket] = struct{}{}
	}
	return slices.Collect(maps.Keys(buckets))
}

func TestBucketInstantsAreGatheredInAnyRowOrder(t *testing.T) {
	t.Parallel()
	const first, second = 0, 1
	at := func(n int) time.Time { return time.Unix(int64(n), 0) }
	of := make([]service.BucketState, 3)
	list := instants{of: of}
	for i, place := range []int{first, first, second, first, second, second} {
		list.add(place, at(i))
	}
	list.close()
	if want := []time.Time{at(0), at(1), at(3)}; !slices.Equal(of[first].Counted, want) {
		t.Errorf("first bucket has %v, want %v", of[first].Counted, want)
	}
	if want := []time.Time{at(2), at(4), at(5)}; !slices.Equal(of[second].Counted, want) {
		t.Errorf("second bucket has %v, want %v", of[second].Counted, want)
	}
	if of[2].Counted != nil {
		t.Errorf("another bucket has %v", of[2].Counted)
	}
}

// twoShards is the map of the two shards that tests have.
func twoShards() *session.ShardMap {
	m, _ := session.NewShardMap([]string{"-80", "80-"})
	return m
}

func TestLockOrderIsByShardFirst(t *testing.T) {
	t.Parallel()
	m := twoShards()
	shards := &session.Shards{}
	shards.Current.Store(m)
	conn := &session.Conn{Engine: engine.Vitess, Shards: shards}
	var checks []service.Check
	for zoneID := range int64(3) {
		for _, key := range []string{"a", "b", "c", "d", "e", "f"} {
			checks = append(checks, service.Check{Buckets: []service.Bucket{{ZoneID: zoneID + 1, Key: key}}})
		}
	}
	b := newBatch(newCache(seenPlaces), conn, service.Call{Checks: checks})
	if !slices.Equal(b.zoneIDs, []int64{1, 2, 3}) {
		t.Errorf("zones are %v", b.zoneIDs)
	}
	last, parts := 0, 0
	for part := range b.parts(b.buckets) {
		parts++
		for _, bucket := range part {
			if bucket.ZoneID != part[0].ZoneID || m.Of(bucket) != m.Of(part[0]) {
				t.Errorf("a part names %v and %v", part[0], bucket)
			}
		}
		if shard := m.Of(part[0]); shard < last {
			t.Errorf("shard %d comes after %d", shard, last)
		} else {
			last = shard
		}
	}
	if parts != 6 {
		t.Errorf("got %d parts, want one for each of 3 zones on 2 shards", parts)
	}
}
