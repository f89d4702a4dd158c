//go:build cluster

package db

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jmoiron/sqlx"

	"velocityd/db/session"
	"velocityd/migrations"
	"velocityd/service"
	"velocityd/tools/enginetest"
	"velocityd/tools/enginetest/vitess"
)

// The tests that are named TestFault… start clusters of their own and break parts of them
// while checks are asked: `make test-cluster-faults`.

// faultWait bounds a start or a failover on a slow machine.
const faultWait = 5 * time.Minute

// ownCluster starts a cluster with tables for one test.
func ownCluster(t *testing.T, o vitess.Options) *vitess.Cluster {
	t.Helper()
	c := vitess.Own(t, o)
	if _, err := migrations.Up(t.Context(), migrations.Vitess, c.DSN()); err != nil {
		t.Fatal(err)
	}
	return c
}

// load is many callers of one zone. They go on to the next bucket when each has been asked
// about twice as often as it admits, so that there are always some with room.
type load struct {
	zone     service.Zone
	store    *Store
	asked    service.CheckStore // the store, or a layer in front of it
	deadline time.Duration      // of a call
	pool     *sql.DB
	count    atomic.Int64 // of the checks that were asked about key-…
	told     atomic.Int64 // how many decisions came back

	mu       sync.Mutex
	admitted map[string]int     // by key, as callers were told
	faults   map[string][]error // by key
	lastTold time.Time
	silence  time.Duration // the longest time between two decisions
}

// newLoad makes the zone, and a store with options, on a cluster. It starts no callers.
func newLoad(t *testing.T, c *vitess.Cluster, o session.Options) *load {
	t.Helper()
	l := &load{
		zone:     service.Zone{ID: 1, Description: "under fault", Rate: 5, Window: time.Hour},
		deadline: time.Minute,
		pool:     firstGate(t, c.DSN()),
		admitted: map[string]int{}, faults: map[string][]error{},
	}
	(&enginetest.Database{SQL: l.pool}).SetZone(t, l.zone)
	o.DSN = c.DSN()
	store, err := Open(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = store.Close() })
	l.store, l.asked = store, store
	return l
}

// under starts callers on a cluster. They stop at stop, which waits for the last of them.
func under(t *testing.T, c *vitess.Cluster, callers int) (l *load, stop func()) {
	t.Helper()
	l = newLoad(t, c, session.Options{LockWait: 10 * time.Second, ConnectTimeout: time.Minute})
	stop = l.start(t, callers, func() error {
		return l.askAbout(fmt.Sprintf("key-%d", l.count.Add(1)/int64(2*l.zone.Rate)))
	})
	l.await(t, "before the first fault")
	return l, stop
}

// start starts callers that ask again and again. They stop at stop, or at the test's end.
func (l *load) start(t *testing.T, callers int, once func() error) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	var group sync.WaitGroup
	for range callers {
		group.Go(func() {
			for ctx.Err() == nil {
				if once() != nil {
					breathe(ctx)
				}
			}
		})
	}
	stop = sync.OnceFunc(func() { cancel(); group.Wait() })
	t.Cleanup(stop)
	return stop
}

// breathe is the pause of a caller after a fault, so that callers do not spin while a shard is away.
func breathe(ctx context.Context) {
	select {
	case <-ctx.Done():
	case <-time.After(20 * time.Millisecond):
	}
}

// askAbout asks one check of a bucket and remembers the answer.
func (l *load) askAbout(key string) error {
	ctx, cancel := context.WithTimeout(context.Background(), l.deadline)
	defer cancel()
	decision, err := ask(ctx, l.asked, check(service.Bucket{ZoneID: l.zone.ID, Key: key}))
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case err != nil:
		l.faults[key] = append(l.faults[key], err)
	case !decision.Blocked:
		l.admitted[key]++
		fallthrough
	default:
		l.told.Add(1)
		now := time.Now()
		if !l.lastTold.IsZero() {
			l.silence = max(l.silence, now.Sub(l.lastTold))
		}
		l.lastTold = now
	}
	return err
}

// await waits until callers have been told two hundred further decisions.
func (l *load) await(t *testing.T, when string) {
	t.Helper()
	enough := l.told.Load() + 200
	enginetest.Eventually(t, "200 decisions "+when, func() bool { return l.told.Load() >= enough })
}

// wantExact compares the recorded rows with the callers' answers: no bucket has more than its
// rate, and none has fewer txns than its callers were told of. Faults must say whether the check
// may have been counted.
func (l *load) wantExact(t *testing.T) {
	t.Helper()
	l.mu.Lock()
	defer l.mu.Unlock()
	recorded := l.recorded(t)
	for key, counted := range recorded {
		if counted > l.zone.Rate {
			t.Errorf("%s has %d counted txns, more than %d", key, counted, l.zone.Rate)
		}
	}
	undecided, busy, texts := 0, 0, map[string]int{}
	for key, admitted := range l.admitted {
		if admitted > recorded[key] {
			t.Errorf("callers were told that %d attempts pass in %s, and %d are recorded", admitted, key, recorded[key])
		}
	}
	for key, errs := range l.faults {
		for _, err := range errs {
			texts[err.Error()]++
			switch {
			case errors.Is(err, service.ErrUndecided):
				undecided++
			case errors.Is(err, service.ErrBusy):
				busy++
			default:
				t.Errorf("%s: neither busy nor undecided: %v", key, err)
			}
		}
	}
	t.Logf("%d decisions in %d buckets, %d undecided, %d busy; the longest time between two decisions was %s",
		l.told.Load(), len(recorded), undecided, busy, l.silence.Round(time.Millisecond))
	for _, text := range slices.Sorted(maps.Keys(texts)) {
		t.Logf("%d times: %s", texts[text], text)
	}
}

// recorded returns how many txns count in each bucket.
func (l *load) recorded(t *testing.T) map[string]int {
	t.Helper()
	var rows []struct {
		Key string `db:"bucket_key"`
		N   int
	}
	if err := sqlx.NewDb(l.pool, "mysql").Select(&rows, "SELECT bucket_key, COUNT(*) AS n FROM zone_txn WHERE zone_id = "+
		"? AND counted GROUP BY bucket_key", l.zone.ID); err != nil {
		t.Fatal(err)
	}
	counted := map[string]int{}
	for _, row := range rows {
		counted[row.Key] = row.N
	}
	return counted
}

// wantNoFaults asserts that no bucket of a shard has met a fault.
func (l *load) wantNoFaults(t *testing.T, place int) {
	t.Helper()
	l.mu.Lock()
	defer l.mu.Unlock()
	for key, errs := range l.faults {
		if twoShards().Of(service.Bucket{ZoneID: l.zone.ID, Key: key}) == place {
			t.Errorf("%s, in a shard that nothing was done to, met %v", key, errs[0])
		}
	}
}

func TestFaultKilledVtgateIsReplacedByTheOther(t *testing.T) {
	c := ownCluster(t, vitess.Options{})
	l, stop := under(t, c, 8)
	for i := range 4 {
		n := 1 - i%2 // the pool that looks at the result reaches the first one
		c.KillVtgate(n)
		l.await(t, fmt.Sprintf("without vtgate %d", n+1))
		if err := c.StartVtgate(t.Context(), n); err != nil {
			t.Fatal(err)
		}
		l.await(t, fmt.Sprintf("with vtgate %d again", n+1))
	}
	stop()
	l.wantExact(t)
}

func TestFaultAPlannedReparentLosesNoTxn(t *testing.T) {
	c := ownCluster(t, vitess.Options{Replicas: 2, Shards: []string{"-"}})
	l, stop := under(t, c, 4)
	for i := range 3 {
		before := c.PrimaryOf(t, "-", "")
		if _, err := c.Vtctldclient(t.Context(), "PlannedReparentShard", vitess.Buckets+"/-"); err != nil {
			t.Fatal(err)
		}
		c.PrimaryOf(t, "-", before.Alias())
		l.await(t, fmt.Sprintf("after reparent %d", i+1))
	}
	stop()
	l.wantExact(t)
}

// A primary whose mysqld does not come back is replaced by vtorc. semi_sync has it that a
// replica has every txn whose COMMIT was answered.
func TestFaultLostPrimaryLosesNoTxn(t *testing.T) {
	c := ownCluster(t, vitess.Options{Replicas: 2, Shards: []string{"-"}})
	l, stop := under(t, c, 4)
	before := c.PrimaryOf(t, "-", "")
	if err := before.LoseMysqld(); err != nil {
		t.Fatal(err)
	}
	c.PrimaryOf(t, "-", before.Alias())
	l.await(t, "after the primary was lost")
	before.ReturnMysqld()
	l.await(t, "after it came back")
	stop()
	l.wantExact(t)
}

func TestFaultShardsAreSplitUnderLoad(t *testing.T) {
	c := ownCluster(t, vitess.Options{})
	l, stop := under(t, c, 4)
	ctx, cancel := context.WithTimeout(t.Context(), 2*faultWait)
	defer cancel()
	if err := c.AddShards(ctx, vitess.Buckets, "-40", "40-80", "80-c0", "c0-"); err != nil {
		t.Fatal(err)
	}
	reshard := func(args ...string) {
		t.Helper()
		if _, err := c.Vtctldclient(
			ctx, append([]string{"Reshard", "--workflow=split", "--target-keyspace=" + vitess.Buckets},
				args...)...); err != nil {
			t.Fatal(err)
		}
		l.await(t, "after reshard "+args[0])
	}
	reshard("create", "--source-shards=-80,80-", "--target-shards=-40,40-80,80-c0,c0-")
	enginetest.Eventually(t, "the copy to end, so that traffic is switched", func() bool {
		_, err := c.Vtctldclient(ctx, "Reshard", "--workflow=split", "--target-keyspace="+vitess.Buckets, "switchtraffic",
			"--timeout=1m")
		return err == nil
	})
	l.await(t, "after the switch")
	reshard("complete")
	stop()
	l.wantExact(t)
}
