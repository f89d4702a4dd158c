package main

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"velocityd/service"
	"velocityd/tools/enginetest"
)

// TestChecksGoOnWhileEachTextIsReinstalled migrates under load. MySQL has no procedure between DROP
// and CREATE, so a check may be told to come again.
func TestChecksGoOnWhileEachTextIsReinstalled(t *testing.T) {
	t.Parallel()
	const rounds, callers = 3, 4
	enginetest.One(t, func(t *testing.T, engine *enginetest.Engine) {
		d := engine.Database(t, service.Zone{ID: 1, Rate: 1_000_000, Window: time.Hour})
		env := environment{"VELOCITY_DSN": d.DSN}
		i := start(t, env, append([]string{"serve"}, slow...)...)
		var lone, pairs bulk
		var isOver atomic.Bool
		var group sync.WaitGroup
		asks := func(b *bulk, body string) {
			group.Go(func() {
				for !isOver.Load() {
					if r, err := request(i.url+"/v1/check", body); err != nil || !b.told(r.status) {
						t.Errorf("%s: %d %s, %v", body, r.status, r.body, err)
						return
					}
				}
			})
		}
		for n := range callers {
			asks(&lone, fmt.Sprintf(`{"zone_id":1,"bucket_key":"lone-%d"}`, n))
			asks(&pairs,
				fmt.Sprintf(`{"buckets":[{"zone_id":1,"bucket_key":"pair-%d"},{"zone_id":1,"bucket_key":"pair-b-%d"}]}`, n, n))
		}
		for range rounds {
			before := [2]int64{lone.decided.Load(), pairs.decided.Load()}
			d.Outdate(t)
			must(t, env, "migrate", "up")
			enginetest.Eventually(t, "checks are decided", func() bool {
				return lone.decided.Load() > before[0]+callers && pairs.decided.Load() > before[1]+callers
			})
		}
		isOver.Store(true)
		group.Wait()
		lone.wantRows(t, d, "bucket_key LIKE 'lone-%'", 1)
		pairs.wantRows(t, d, "bucket_key LIKE 'pair-%'", 2)
		t.Logf("lone: %d decided, %d busy; pairs: %d and %d", lone.decided.Load(), lone.busy.Load(), pairs.decided.Load(),
			pairs.busy.Load())
	})
}
