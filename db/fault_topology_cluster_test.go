//go:build cluster

package db

import (
	"context"
	"errors"
	"testing"
	"time"

	"velocityd/db/dbtest"
	"velocityd/db/dbtest/vitess"
	"velocityd/service"
)

// topologyAway is for how long etcd is away in tests, which is longer than any of Vitess' own
// patience with it is here.
const topologyAway = 20 * time.Second

func TestFaultChecksGoOnWhileTheTopologyIsAway(t *testing.T) {
	c := ownCluster(t, vitess.Options{})
	l, stop := under(t, c, 8)
	faults := []struct {
		name       string
		begin, end func() error
	}{
		{"frozen", c.FreezeTopology, c.ThawTopology},
		{"killed", func() error { c.KillTopology(); return nil }, func() error { return c.StartTopology(t.Context()) }},
	}
	for _, fault := range faults {
		if err := fault.begin(); err != nil {
			t.Fatal(err)
		}
		begun, told := time.Now(), l.told.Load()
		l.store.engines.shards.readAt.Store(0) // the map of shards is doubted, and read again
		newcomer, err := Open(Options{DSN: c.DSN(), Engine: EngineVitess})
		if err != nil {
			t.Fatal(err)
		}
		defer newcomer.Close()
		probe, err := OpenProbe(Options{DSN: c.DSN(), Engine: EngineVitess})
		if err != nil {
			t.Fatal(err)
		}
		defer probe.Close()
		for i := range 3 {
			ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
			start := time.Now()
			_, err = ask(ctx, newcomer, check(service.Bucket{ZoneID: 1, Key: "newcomer"}))
			t.Logf("%s %d: newcomer %s: %v (busy %v)", fault.name, i, time.Since(start), err, errors.Is(err, service.ErrBusy))
			cancel()
			pctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
			start = time.Now()
			err = probe.Prove(pctx)
			t.Logf("%s %d: probe %s: %v, %v, lost %q", fault.name, i, time.Since(start), err, errors.Unwrap(err), probe.Lost())
			cancel()
		}
		dbtest.Eventually(t, "etcd to have been away for long", func() bool { return time.Since(begun) >= topologyAway })
		t.Logf("%s: %d decisions in %s", fault.name, l.told.Load()-told, time.Since(begun))
		l.await(t, "with etcd "+fault.name)
		if err := fault.end(); err != nil {
			t.Fatal(err)
		}
		back := time.Now()
		dbtest.Eventually(t, "the newcomer is served", func() bool {
			ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
			defer cancel()
			_, err := ask(ctx, newcomer, check(service.Bucket{ZoneID: 1, Key: "newcomer"}))
			return err == nil
		})
		t.Logf("%s: newcomer served after %s", fault.name, time.Since(back))
		l.await(t, "with etcd again")
	}
	stop()
	l.wantExact(t)
	for key, errs := range l.faults {
		t.Errorf("%s met %v", key, errs[0])
	}
}
