//go:build cluster

package db

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"velocityd/db/session"
	"velocityd/service"
	"velocityd/tools/enginetest"
	"velocityd/tools/enginetest/vitess"
)

// topologyAway is for how long etcd is away in tests. vtgate remembers its answers for a
// second.
const topologyAway = 20 * time.Second

// instance is what `velocityd serve` has of a database: a store and the probe of /readyz.
type instance struct {
	store *Store
	probe *Probe
}

func newInstance(t *testing.T, c *vitess.Cluster) instance {
	t.Helper()
	store, err := Open(session.Options{DSN: c.DSN()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = store.Close() })
	return instance{store, store.Probe()}
}

// ask asks one check as a caller does, and returns how long that took.
func (i instance) ask(t *testing.T) (time.Duration, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), servedDeadline)
	defer cancel()
	begun := time.Now()
	_, err := ask(ctx, i.store, check(service.Bucket{ZoneID: 1, Key: "newcomer"}))
	return time.Since(begun), err
}

// ready asks whether the instance is ready.
func (i instance) ready(t *testing.T) error {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), servedDeadline)
	defer cancel()
	return i.probe.Ready(ctx)
}

// wantWaiting asserts that an instance which has never known the shards says so.
func (i instance) wantWaiting(t *testing.T) {
	t.Helper()
	took, err := i.ask(t)
	if !errors.Is(err, service.ErrAway) || !strings.Contains(err.Error(), "topology") {
		t.Errorf("a check without a list of shards: %v, want it away because of the topology", err)
	}
	unready := i.ready(t)
	if unready == nil || !strings.Contains(unready.Error(), "topology") {
		t.Errorf("not ready because of %v, want the topology", unready)
	}
	t.Logf("a check was refused after %s: %v; /readyz says %v", took.Round(time.Millisecond), err, unready)
}

// awaitServed waits until an instance is ready and decides.
func (i instance) awaitServed(t *testing.T, when string) {
	t.Helper()
	enginetest.Eventually(t, "a decision of "+when, func() bool { _, err := i.ask(t); return err == nil })
	enginetest.Eventually(t, "ready: "+when, func() bool { return i.ready(t) == nil })
}

// Checks go on, whether etcd keeps silent or is not there. An instance that was ready once
// decides its first check then. One that starts then waits.
func TestFaultChecksGoOnWhileTopologyIsAway(t *testing.T) {
	c := ownCluster(t, vitess.Options{})
	l, stop := under(t, c, 8)
	for _, fault := range []struct {
		name       string
		begin, end func() error
	}{
		{"silent", c.FreezeTopology, c.ThawTopology},
		{"killed", func() error { c.KillTopology(); return nil }, func() error { return c.StartTopology(t.Context()) }},
	} {
		idle := newInstance(t, c)
		enginetest.Eventually(t, "an instance is ready", func() bool { return idle.ready(t) == nil })
		if err := fault.begin(); err != nil {
			t.Fatal(err)
		}
		begun, told := time.Now(), l.told.Load()
		enginetest.Eventually(t, "vtgate cannot list the shards", func() bool {
			ctx, cancel := context.WithTimeout(t.Context(), servedDeadline)
			defer cancel()
			_, err := l.pool.ExecContext(ctx, "SHOW VITESS_SHARDS")
			return err != nil
		})
		l.store.database.Shards.Doubt() // as after a minute: the map of shards is doubted
		newcomer := newInstance(t, c)
		newcomer.wantWaiting(t)
		idle.awaitServed(t, "an instance that was ready before, with etcd "+fault.name)
		enginetest.Eventually(t, "etcd has been away for long", func() bool { return time.Since(begun) >= topologyAway })
		l.await(t, "with etcd "+fault.name)
		newcomer.wantWaiting(t)
		t.Logf("etcd %s: %d decisions in %s", fault.name, l.told.Load()-told, time.Since(begun).Round(time.Millisecond))
		if err := fault.end(); err != nil {
			t.Fatal(err)
		}
		back := time.Now()
		enginetest.Eventually(t, "the newcomer is ready", func() bool { return newcomer.ready(t) == nil })
		t.Logf("etcd was %s: an instance that had waited was ready %s after it was back", fault.name,
			time.Since(back).Round(time.Millisecond))
		newcomer.awaitServed(t, "an instance that had waited")
		l.await(t, "with etcd again")
	}
	stop()
	l.wantExact(t)
	for key, errs := range l.faults {
		t.Errorf("%s met %v", key, errs[0])
	}
}
