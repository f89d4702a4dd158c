package db

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"velocityd/db/dbtest"
	"velocityd/service"
	"velocityd/service/servicetest"
)

func TestProcStoreKeepsTheContract(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, engine *dbtest.Engine) {
		servicetest.Exercise(t, func(t *testing.T) servicetest.Bench {
			return newBench(t, engine.Database(t), false)
		})
	})
}

func TestBatchProcedureKeepsTheContractAlone(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, engine *dbtest.Engine) {
		servicetest.Exercise(t, func(t *testing.T) servicetest.Bench {
			return newBench(t, engine.Database(t), true)
		})
	})
}

func TestTwoInstancesAndSQLCallersShareOneLimit(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, engine *dbtest.Engine) {
		const callers, rate = 200, 11
		d := engine.Database(t)
		d.SetZone(t, zone(1, rate, time.Hour))
		first, second := NewProcStore(connect(t, d, Options{LockWait: 20 * time.Second})), NewProcStore(connect(t, d, Options{LockWait: 20 * time.Second}))
		client := session(t, d)
		var mu sync.Mutex
		allowed := 0
		var group sync.WaitGroup
		ask := func(n int, one func() (blocked bool, err error)) {
			group.Go(func() {
				for range n {
					blocked, err := one()
					mu.Lock()
					if err != nil {
						t.Error(err)
					} else if !blocked {
						allowed++
					}
					mu.Unlock()
				}
			})
		}
		for _, store := range []*ProcStore{first, second} {
			for range callers {
				ask(1, func() (bool, error) {
					decisions, err := store.CheckAll(context.Background(), check(user("hot")))
					return err == nil && decisions[0].Blocked, err
				})
			}
		}
		ask(20, func() (bool, error) {
			r, err := call(client, user("hot"))
			return r.blocked, err
		})
		group.Wait()
		if allowed != rate || len(d.Txns(t, user("hot"))) != 2*callers+20 {
			t.Errorf("allowed %d of %d recorded, want %d of %d",
				allowed, len(d.Txns(t, user("hot"))), rate, 2*callers+20)
		}
	})
}

func TestBatchesWithKeysInCommonNeitherDeadlockNorOverAdmit(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, engine *dbtest.Engine) {
		const callers, keys, rate = 16, 12, 40
		d := engine.Database(t)
		d.SetZone(t, zone(1, rate, time.Hour))
		d.SetZone(t, zone(2, rate, time.Hour))
		store := NewProcStore(connect(t, d, Options{LockWait: 20 * time.Second}))
		var group sync.WaitGroup
		for caller := range callers {
			group.Go(func() {
				for round := range 5 {
					var checks []service.Check
					for i := range keys { // every caller in an order of its own
						k := fmt.Sprint("key-", (i*(1+2*(caller%3))+round)%keys)
						checks = append(checks, service.Check{Buckets: []service.Bucket{{ZoneID: 2, Key: k}, {ZoneID: 1, Key: k}}})
					}
					if _, err := store.CheckAll(context.Background(), checks); err != nil {
						t.Error(err)
					}
				}
			})
		}
		group.Wait()
		over := d.Count(t, `SELECT COUNT(*) FROM (
SELECT zone_id, bucket_key FROM zone_txn WHERE counted GROUP BY zone_id, bucket_key HAVING COUNT(*) > ?) AS o`, rate)
		half := d.Count(t, `SELECT COUNT(*) FROM (
SELECT bucket_key FROM zone_txn WHERE counted GROUP BY bucket_key HAVING SUM(zone_id = 1) <> SUM(zone_id = 2)) AS h`)
		if over != 0 || half != 0 {
			t.Errorf("%d buckets over their rate, %d keys charged in one zone only", over, half)
		}
	})
}

func TestRefusedCheckLeavesNoLockRowAndNoTxn(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, engine *dbtest.Engine) {
		d := engine.Database(t)
		d.SetZone(t, zone(1, 5, time.Hour))
		store := NewProcStore(connect(t, d, Options{}))
		for _, checks := range [][]service.Check{
			check(service.Bucket{ZoneID: 404, Key: "alice"}),
			check(user("alice"), service.Bucket{ZoneID: 404, Key: "alice"}),
		} {
			decisions, err := store.CheckAll(context.Background(), checks)
			if err != nil || !errors.Is(decisions[0].Err, service.ErrNotFound) {
				t.Errorf("got %+v, %v, want ErrNotFound", decisions, err)
			}
		}
		locks := d.Count(t, "SELECT COUNT(*) FROM zone_bucket_lock")
		if txns := d.Count(t, "SELECT COUNT(*) FROM zone_txn"); locks != 0 || txns != 0 {
			t.Errorf("left %d lock rows and %d txns", locks, txns)
		}
		if open, _ := d.Transactions(t); open != 0 {
			t.Errorf("left %d transactions open", open)
		}
	})
}

// TestAZoneThatComesAndGoesAdmitsNoMoreThanItsRate changes the zone between the look
// that finds it unfit, so that no lock row is made, and the look that decides.
func TestAZoneThatComesAndGoesAdmitsNoMoreThanItsRate(t *testing.T) {
	t.Parallel()
	const buckets, callers, rate = 80, 24, 3
	dbtest.Each(t, func(t *testing.T, engine *dbtest.Engine) {
		for name, change := range map[string][]string{
			"key rule": {"UPDATE zone_master SET key_kind = 'username' WHERE id = 1", "UPDATE zone_master SET key_kind = 'opaque' WHERE id = 1"},
			"zone":     {"DELETE FROM zone_master WHERE id = 1", fmt.Sprintf("INSERT INTO zone_master (id, rate, `window`) VALUES (1, %d, 3600)", rate)},
		} {
			d := engine.Database(t)
			d.SetZone(t, zone(1, rate, time.Hour))
			store := NewProcStore(connect(t, d, Options{MaxConns: callers, LockWait: 20 * time.Second}))
			stop := meanwhile(func() {
				for _, statement := range change {
					if _, err := d.SQL.ExecContext(context.Background(), statement); err != nil {
						t.Error(err)
					}
				}
			})
			for i := range buckets {
				var group sync.WaitGroup
				for range callers {
					group.Go(func() {
						_, err := store.CheckAll(context.Background(), []service.Check{
							{Buckets: []service.Bucket{user(fmt.Sprint(i))}, KeyRules: []service.KeyRule{{}}},
						})
						if err != nil && !errors.Is(err, service.ErrStaleKey) && !errors.Is(err, service.ErrBusy) {
							t.Error(err)
						}
					})
				}
				group.Wait()
			}
			stop()
			if n := d.Count(t, `
SELECT COUNT(*)
  FROM (SELECT bucket_key FROM zone_txn WHERE counted GROUP BY bucket_key HAVING COUNT(*) > ?) AS crowded`, rate); n != 0 {
				t.Errorf("%s: %d of %d buckets admitted more than %d", name, n, buckets, rate)
			}
		}
	})
}

func TestLockRowsRemovedUnderLoadNeverCostExactness(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, engine *dbtest.Engine) {
		const callers, rate = 60, 9
		d := engine.Database(t)
		d.SetZone(t, zone(1, rate, time.Hour))
		store := NewProcStore(connect(t, d, Options{LockWait: 20 * time.Second}))
		stop := meanwhile(func() {
			// A cleaner may lose a deadlock; it comes again.
			_, _ = d.SQL.Exec("DELETE FROM zone_bucket_lock WHERE zone_id = 1 AND bucket_key = 'hot'")
		})
		var group sync.WaitGroup
		for range callers {
			group.Go(func() {
				limiter := service.NewLimiter(store, 2*time.Minute)
				for range 3 {
					_, err := limiter.Check(context.Background(), check(user("hot"))[0])
					if err != nil && !errors.Is(err, service.ErrBusy) {
						t.Error(err)
					}
				}
			})
		}
		group.Wait()
		stop()
		if n := d.Count(t, "SELECT COUNT(*) FROM zone_txn WHERE counted"); n != rate {
			t.Errorf("counted %d, want %d", n, rate)
		}
	})
}
