//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"syscall"
	"time"

	"velocityd/tools/enginetest/program"
	"velocityd/tools/enginetest/relay"
)

// fault is a kind of harm.
type fault struct {
	name string
	// missing says why it cannot be done on this machine; it may be nil.
	missing func(ctx context.Context, l *lab) error
	// do does harm, and returns when it has ended. An error is one of this tool or machine.
	do func(ctx context.Context, w *world, r *rand.Rand) error
	// isAlone keeps it from rounds with another one that is alone: both replace programs or clocks.
	isAlone bool
}

// The faults for which a round makes something ready.
const (
	diskFull   = "disk-full"
	clockSteps = "clock-steps"
	upgrades   = "upgrade"
)

func table() []fault {
	const locks = "SELECT * FROM zone_bucket_lock WHERE "
	stall := func(r *relay.Relay) { r.Stall.Store(true) }
	return []fault{
		{name: "kill-engine", do: killEngine},
		{name: "stop-engine", do: stopEngine},
		{name: "kill-instance", do: killInstance},
		{name: "stop-instance", do: stopInstance},
		{name: "cut", do: onRelays(func(r *relay.Relay) { r.Cut() }, func(*relay.Relay) {})},
		{name: "stall", do: onRelays(stall, func(r *relay.Relay) { r.Stall.Store(false) })},
		{name: "stall-and-cut", do: onRelays(stall, func(r *relay.Relay) { r.Cut(); r.Stall.Store(false) })},
		{name: "half-delivered", do: onRelays(func(r *relay.Relay) { r.Withhold.Store(true) },
			func(r *relay.Relay) { r.Withhold.Store(false); r.Cut() })},
		{name: "no-connections", do: onRelays(func(r *relay.Relay) { r.Refuse.Store(true); r.Cut() },
			func(r *relay.Relay) { r.Refuse.Store(false) })},
		{name: "read-only", do: statements([]string{"SET GLOBAL read_only = ON", "SET GLOBAL super_read_only = ON"},
			[]string{"SET GLOBAL read_only = OFF"}, false)},
		{name: "too-many-connections", do: statements([]string{"SET GLOBAL max_connections = 12"},
			[]string{"SET GLOBAL max_connections = 200"}, true)},
		{name: "lock-waits", do: lockWaits(locks + "bucket_key IN ('hot-0', '192.0.2.1') FOR UPDATE")},
		{name: "gap-locks", do: lockWaits(locks + "zone_id = 1 AND bucket_key > 'cold-2' FOR UPDATE")},
		{name: diskFull, do: fillDisk, missing: needsDisk, isAlone: true},
		{name: clockSteps, do: stepClock, missing: needsFaketime, isAlone: true},
		{name: "ddl", do: statements([]string{
			"SET SESSION lock_wait_timeout = 2", "ALTER TABLE zone_txn ADD KEY faults (created_at)", "ANALYZE TABLE zone_txn",
			"ALTER TABLE zone_bucket_lock ADD COLUMN faults INT NULL", "ALTER TABLE zone_txn DROP KEY faults",
			"ALTER TABLE zone_bucket_lock DROP COLUMN faults",
		}, nil, false)},
		{name: "retention", do: retention},
		{name: "erasure", do: erasure},
		{name: "zone-edits", do: zoneEdits},
		{name: "rolling-restart", do: rollingRestart, isAlone: true},
		{name: upgrades, do: upgrade, missing: needsFormer, isAlone: true},
	}
}

// harm lets the faults of a round overlap. It returns when all have ended.
func (w *world) harm(ctx context.Context, faults []fault) error {
	failed := make([]error, len(faults))
	var all sync.WaitGroup
	for i, f := range faults {
		r := w.random(uint64(i))
		all.Go(func() {
			pause(ctx, between(r, 0, 1500))
			if err := f.do(ctx, w, r); err != nil && ctx.Err() == nil {
				failed[i] = fmt.Errorf("fault %s: %w", f.name, err)
			}
		})
	}
	all.Wait()
	return errors.Join(append(failed, w.startEngine(ctx))...) // it may have ended by itself
}

// between draws a time in milliseconds.
func between(r *rand.Rand, least, most int) time.Duration {
	return time.Duration(least+r.IntN(most-least+1)) * time.Millisecond
}

func killEngine(ctx context.Context, w *world, r *rand.Rand) error {
	for range 1 + r.IntN(2) {
		w.killEngine()
		pause(ctx, between(r, 0, 1500))
		_ = w.startEngine(ctx) // its disk may be full; harm starts it in the end
		pause(ctx, between(r, 500, 2000))
	}
	return nil
}

func stopEngine(ctx context.Context, w *world, r *rand.Rand) error {
	for range 1 + r.IntN(2) {
		w.mu.Lock()
		pid := w.server.PID()
		_ = syscall.Kill(pid, syscall.SIGSTOP)
		pause(ctx, between(r, 300, 5000))
		err := syscall.Kill(pid, syscall.SIGCONT)
		w.mu.Unlock()
		if err != nil && !errors.Is(err, syscall.ESRCH) {
			return err
		}
		pause(ctx, between(r, 300, 1500))
	}
	return nil
}

func killInstance(ctx context.Context, w *world, r *rand.Rand) (err error) {
	for range 1 + r.IntN(3) {
		i := w.instances[r.IntN(instances)]
		i.away(func() {
			i.process.Kill()
			pause(ctx, between(r, 0, 800))
			err = errors.Join(err, i.start())
			_ = program.AwaitReady(ctx, i.address, 10*time.Second) // the engine may be away
		})
	}
	return err
}

func stopInstance(ctx context.Context, w *world, r *rand.Rand) error {
	for range 1 + r.IntN(2) {
		i := w.instances[r.IntN(instances)]
		i.away(func() {
			i.process.Signal(syscall.SIGSTOP)
			pause(ctx, between(r, 300, 6000))
			i.process.Signal(syscall.SIGCONT)
		})
		pause(ctx, between(r, 200, 1000))
	}
	return nil
}

// onRelays breaks the networks of the engine's clients, some of them at a time.
func onRelays(begin, end func(*relay.Relay)) func(context.Context, *world, *rand.Rand) error {
	return func(ctx context.Context, w *world, r *rand.Rand) error {
		for range 1 + r.IntN(4) {
			var chosen []*relay.Relay
			for _, one := range w.relays {
				if r.IntN(3) > 0 {
					chosen = append(chosen, one)
				}
			}
			for _, one := range chosen {
				begin(one)
			}
			pause(ctx, between(r, 50, 3500))
			for _, one := range chosen {
				end(one)
			}
			pause(ctx, between(r, 100, 800))
		}
		return nil
	}
}
