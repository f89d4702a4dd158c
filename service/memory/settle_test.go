package memory_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"velocityd/service"
)

// TestSettleAgreesWithTheReferenceStore reports at random to a Memory, which has its own statement
// of the rule, and asks service.Settle what the same reports change.
func TestSettleAgreesWithTheReferenceStore(t *testing.T) {
	t.Parallel()
	for seed := range uint64(200) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			random := rand.New(rand.NewPCG(seed, 7))
			c := newClocked()
			zones := map[int64]service.Zone{}
			for id := int64(1); id <= 3; id++ {
				zones[id] = service.Zone{
					ID: id, Rate: 3 + random.IntN(9), Window: time.Hour,
					Counts:         []service.Counts{service.CountsAttempts, service.CountsFailures}[random.IntN(2)],
					ReserveTTL:     []time.Duration{0, time.Minute}[random.IntN(2)],
					ResetOnSuccess: random.IntN(3) == 0,
				}
				c.SetZone(t, zones[id])
			}
			checks := map[uint64][]service.Bucket{}
			firsts := map[uint64]uint64{}
			for range 12 {
				buckets := one("", fmt.Sprint("a", random.IntN(2)), fmt.Sprint("b", random.IntN(2)),
					fmt.Sprint("c", random.IntN(2))).Buckets
				random.Shuffle(len(buckets), func(i, j int) { buckets[i], buckets[j] = buckets[j], buckets[i] })
				d := c.check(t, service.Check{Buckets: buckets[:1+random.IntN(3)]})
				for _, v := range d.Verdicts {
					firsts[v.TxnID] = d.TxnID()
					checks[d.TxnID()] = append(checks[d.TxnID()], v.Bucket)
				}
				c.now = c.now.Add(time.Duration(random.IntN(10)) * time.Second)
			}
			for range 6 {
				settleBoth(t, c, random, zones, checks, firsts)
				c.now = c.now.Add(time.Duration(random.IntN(20)) * time.Second)
			}
		})
	}
}

// settleBoth makes one call with a few reports.
func settleBoth(
	t *testing.T, c *clocked, random *rand.Rand, zones map[int64]service.Zone, checks map[uint64][]service.Bucket,
	firsts map[uint64]uint64,
) {
	t.Helper()
	before := map[uint64]service.Txn{}
	for id := range firsts {
		before[id], _ = c.Txn(t.Context(), id)
	}
	var reports []service.Report
	var txns [][]service.Txn
	for range 1 + random.IntN(4) {
		id := uint64(1 + random.IntN(len(firsts)+1)) // the last is unknown
		reports = append(reports, service.Report{TxnID: id, Outcome: []service.Outcome{"success", "failure"}[random.IntN(2)]})
		var of []service.Txn
		for i := range checks[firsts[id]] {
			of = append(of, before[firsts[id]+uint64(i)])
		}
		txns = append(txns, of)
	}
	settlement := service.Settle(c.now, zones, reports, txns)
	errs, err := c.ReportAll(t.Context(), reports)
	if err != nil {
		t.Fatal(err)
	}
	for i, report := range reports {
		mine := settlement.Statuses[i].Err(report)
		for _, kind := range []error{service.ErrNotFound, service.ErrConflict} {
			if errors.Is(mine, kind) != errors.Is(errs[i], kind) {
				t.Errorf("%+v: %v, want %v", report, mine, errs[i])
			}
		}
	}
	for _, txn := range settlement.Settled {
		before[txn.ID] = txn.Txn
	}
	for _, bucket := range settlement.Resets {
		since := service.UncountSince(c.now, zones[bucket.ZoneID], nil)
		for id, txn := range before {
			if txn.Bucket == bucket && txn.CreatedAt.After(since) && txn.Counted {
				txn.Counted, txn.UncountedAt.Time = false, c.now
				before[id] = txn
			}
		}
	}
	for id, txn := range before {
		if want, _ := c.Txn(t.Context(), id); txn != want {
			t.Errorf("after %+v: %+v, want %+v", reports, txn, want)
		}
	}
}
