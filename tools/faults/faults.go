package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"time"

	"velocityd/tools/enginetest/relay"
)

// fault is a kind of harm.
type fault struct {
	name string
	// missing says why it cannot be done on this machine; nil or "": it can.
	missing func(ctx context.Context, l *lab) string
	// do does harm, and returns when it has ended. An error is one of this tool or machine.
	do func(ctx context.Context, w *world, r *rand.Rand) error
	// isAlone keeps it from rounds with another one that is alone: both replace programs or clocks.
	isAlone bool
}

// The faults for which a round makes something ready.
const (
	diskFull   = "disk-full"
	clockSteps = "clock-steps"
)

func table() []fault {
	return []fault{
		{name: "kill-engine", do: killEngine},
		{name: "stop-engine", do: stopEngine},
		{name: "kill-instance", do: killInstance},
		{name: "stop-instance", do: stopInstance},
		{name: "cut", do: onRelays(func(r *relay.Relay) { r.Cut() }, func(*relay.Relay) {})},
		{name: "stall",
			do: onRelays(func(r *relay.Relay) { r.Stall.Store(true) }, func(r *relay.Relay) { r.Stall.Store(false) })},
		{name: "stall-and-cut", do: onRelays(func(r *relay.Relay) { r.Stall.Store(true) },
			func(r *relay.Relay) { r.Cut(); r.Stall.Store(false) })},
		{name: "half-delivered", do: onRelays(func(r *relay.Relay) { r.Withhold.Store(true) },
			func(r *relay.Relay) { r.Withhold.Store(false); r.Cut() })},
		{name: "no-connections", do: onRelays(func(r *relay.Relay) { r.Refuse.Store(true); r.Cut() },
			func(r *relay.Relay) { r.Refuse.Store(false) })},
		{name: "read-only", do: statements([]string{"SET GLOBAL read_only = ON", "SET GLOBAL super_read_only = ON"},
			[]string{"SET GLOBAL read_only = OFF"}, false)},
		{name: "too-many-connections", do: statements([]string{"SET GLOBAL max_connections = 12"},
			[]string{"SET GLOBAL max_connections = 200"}, true)},
		{name: "lock-waits",
			do: lockWaits("SELECT * FROM zone_bucket_lock WHERE bucket_key IN ('hot-0', '192.0.2.1') FOR UPDATE")},
		{name: "gap-locks",
			do: lockWaits("SELECT * FROM zone_bucket_lock WHERE zone_id = 1 AND bucket_key > 'cold-2' FOR UPDATE")},
		{name: diskFull, do: fillDisk, missing: needsRoot, isAlone: true},
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
		{name: "upgrade", do: upgrade, missing: needsNext, isAlone: true},
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
		if err := w.startEngine(ctx); err != nil {
			return err
		}
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
			i.kill()
			pause(ctx, between(r, 0, 800))
			err = errors.Join(err, i.start(ctx))
			_ = i.awaitReady(ctx, 10*time.Second) // the engine may be away
		})
	}
	return err
}

func stopInstance(ctx context.Context, w *world, r *rand.Rand) error {
	for range 1 + r.IntN(2) {
		i := w.instances[r.IntN(instances)]
		i.away(func() {
			i.signal(syscall.SIGSTOP)
			pause(ctx, between(r, 300, 6000))
			i.signal(syscall.SIGCONT)
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

// dba carries out statements as root on one session. Faults of the engine may end it, which is no error of this tool.
func (w *world) dba(ctx context.Context, statements ...string) {
	ctx, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	conn, err := w.root.Conn(ctx)
	if err != nil {
		return
	}
	defer conn.Close()
	for _, s := range statements {
		_, _ = conn.ExecContext(ctx, s)
	}
}

// undo carries out a statement until it has succeeded: the fault must end.
func (w *world) undo(ctx context.Context, statement string) error {
	for began := time.Now(); ; pause(ctx, 100*time.Millisecond) {
		once, cancel := context.WithTimeout(ctx, 5*time.Second)
		_, err := w.root.ExecContext(once, statement)
		cancel()
		if err == nil || ctx.Err() != nil {
			return nil
		}
		if time.Since(began) > time.Minute {
			return fmt.Errorf("%s: %w", statement, err)
		}
	}
}

// statements are a fault by SQL that has to be taken back: MySQL's and MariaDB's names differ, so one of them may fail.
func statements(begin, end []string, cuts bool) func(context.Context, *world, *rand.Rand) error {
	return func(ctx context.Context, w *world, r *rand.Rand) error {
		for range 1 + r.IntN(2) {
			w.dba(ctx, begin...)
			for _, one := range w.relays {
				if cuts && r.IntN(2) == 0 {
					one.Cut()
				}
			}
			pause(ctx, between(r, 500, 4000))
			for _, s := range end {
				if err := w.undo(ctx, s); err != nil {
					return err
				}
			}
			pause(ctx, between(r, 200, 1000))
		}
		return nil
	}
}

// lockWaits is a session that locks rows and leaves them locked for a while.
func lockWaits(statement string) func(context.Context, *world, *rand.Rand) error {
	return func(ctx context.Context, w *world, r *rand.Rand) error {
		for range 1 + r.IntN(4) {
			conn, err := w.root.Conn(ctx)
			if err != nil {
				pause(ctx, between(r, 100, 500))
				continue
			}
			for _, s := range []string{"SET SESSION innodb_lock_wait_timeout = 2", "START TRANSACTION", statement} {
				_, _ = conn.ExecContext(ctx, s)
			}
			pause(ctx, between(r, 200, 3500))
			_, _ = conn.ExecContext(context.WithoutCancel(ctx), "ROLLBACK")
			_ = conn.Close()
			pause(ctx, between(r, 100, 800))
		}
		return nil
	}
}

func needsRoot(context.Context, *lab) string {
	if runtime.GOOS != "linux" || os.Getuid() != 0 {
		return "it mounts a small disk, which takes root on Linux"
	}
	return ""
}

// fillDisk fills the small disk of the engine. An engine that has ended by it, or still waits, is started again as an
// operator does.
func fillDisk(ctx context.Context, w *world, r *rand.Rand) error {
	path := filepath.Join(w.dir, "data", "filler")
	file, err := os.Create(path)
	if err != nil {
		return err
	}
	piece := make([]byte, 1<<20)
	for size := 1 << 20; size > 0; { // the last bytes, too
		if _, err := file.Write(piece[:size]); err != nil {
			size /= 2
		}
	}
	_ = file.Close()
	for range 4 {
		pause(ctx, between(r, 400, 1200))
		w.dba(ctx, "FLUSH BINARY LOGS")
	}
	if err := os.Remove(path); err != nil {
		return err
	}
	pause(ctx, time.Second)
	ping, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	if _, err := w.root.ExecContext(ping, "UPDATE retention_policy SET keep_days = keep_days + 1"); err != nil {
		w.killEngine()
	}
	return w.startEngine(ctx)
}

// faketime is the library that gives the engine another clock.
func faketime() string {
	list, _ := filepath.Glob("/usr/lib/*/faketime/libfaketimeMT.so.1")
	return strings.Join(list, "")
}

func needsFaketime(context.Context, *lab) string {
	if faketime() == "" {
		return "there is no libfaketime: apt-get install faketime"
	}
	return ""
}

func (w *world) clockFile() string { return filepath.Join(w.dir, "clock") }

func (w *world) clockEnviron() map[string]string {
	return map[string]string{
		"LD_PRELOAD": faketime(), "FAKETIME_TIMESTAMP_FILE": w.clockFile(), "FAKETIME_CACHE_DURATION": "1",
		"FAKETIME_DONT_FAKE_MONOTONIC": "1", "FAKETIME_DONT_RESET": "1",
	}
}

// setClock sets how far the engine's clock is ahead, which it sees within a second.
func (w *world) setClock(ahead time.Duration) error {
	if !w.hasClock {
		return nil
	}
	temp := w.clockFile() + ".new"
	if err := os.WriteFile(temp, fmt.Appendf(nil, "%+.3f\n", ahead.Seconds()), 0o600); err != nil {
		return err
	}
	return os.Rename(temp, w.clockFile())
}

// longest is more than the windows of most zones: for so long a step of the clock matters to limits.
const longest = 10 * time.Second

func stepClock(ctx context.Context, w *world, r *rand.Rand) error {
	begin := w.now()
	defer func() { add(w.records, &w.jumps, span{begin, w.now() + longest + 10*time.Second}) }()
	for range 2 + r.IntN(2) {
		if err := w.setClock(between(r, -5000, 7000)); err != nil {
			return err
		}
		pause(ctx, between(r, 1200, 4000))
	}
	err := w.setClock(0)
	pause(ctx, 4*time.Second)
	return err
}

func retention(ctx context.Context, w *world, r *rand.Rand) error {
	w.dba(ctx, "UPDATE retention_task SET began_at = NULL, ended_at = NULL")
	for range 1 + r.IntN(2) {
		_, _ = runOn(ctx, w.binary, w.ownerDSN(), "retain") // another fault may end it
		w.dba(ctx, "CALL retain()")
		pause(ctx, between(r, 100, 1000))
	}
	return nil
}

// erasure puts a pseudonym in the place of a key that is asked for meanwhile.
func erasure(ctx context.Context, w *world, r *rand.Rand) error {
	for range 1 + r.IntN(2) {
		c := &change{kind: "erase", span: span{begin: w.now()}}
		for id := range zonesByID() {
			c.buckets = append(c.buckets, bucket{id, erasable})
		}
		_, err := runOn(ctx, w.binary, w.ownerDSN(), "subject", "erase", erasable, "--reason", "faults", "--yes")
		if c.state = acked; err != nil {
			c.state = unknown // it may be in parts
		}
		c.end = w.now()
		add(w.records, &w.changes, c)
		pause(ctx, between(r, 300, 1500))
	}
	return nil
}

func zoneEdits(ctx context.Context, w *world, r *rand.Rand) error {
	for range 4 + r.IntN(8) {
		w.dba(ctx, fmt.Sprintf("UPDATE zone_master SET rate = %d WHERE id = %d", 3+r.IntN(6), edited),
			"UPDATE zone_master SET description = CONCAT('edited ', NOW(6)) WHERE id IN (1, 2, 3)")
		pause(ctx, between(r, 50, 800))
	}
	return nil
}

// rollingRestart stops one instance after the other as an operator does, and starts it again.
func rollingRestart(ctx context.Context, w *world, _ *rand.Rand) error { return w.roll(ctx, w.binary) }

func (w *world) roll(ctx context.Context, binary string) (err error) {
	for _, i := range w.instances {
		i.away(func() {
			i.signal(syscall.SIGTERM)
			if !i.await(25 * time.Second) {
				err = errors.New("an instance does not stop")
				return
			}
			i.binary = binary
			err = errors.Join(err, i.start(ctx))
			_ = i.awaitReady(ctx, 20*time.Second) // the engine may be away
		})
	}
	return err
}

// needsNext builds the next program: this checkout with one more step, which changes a table, and one changed
// procedure. Steps are numbered and immutable from the first release on, so until there is a second one this is the
// real step of an upgrade.
func needsNext(ctx context.Context, l *lab) string {
	if l.next != "" {
		return ""
	}
	procedure := "migrations/procedures/check_velocity_by_rule.sql"
	steps, _ := filepath.Glob("migrations/0*.up.sql")
	step := fmt.Sprintf("migrations/%06d_faults.up.sql", len(steps)+1)
	text, err := os.ReadFile(procedure)
	if err != nil {
		return err.Error()
	}
	files := map[string]string{
		step:      "ALTER TABLE zone_txn ADD COLUMN faults INT NULL DEFAULT NULL COMMENT 'of the next version'\n",
		procedure: strings.Replace(string(text), "\nBEGIN\n", "\nBEGIN\n  -- The next version's.\n", 1),
	}
	var replaced []string
	for _, name := range sortedKeys(files) {
		place := filepath.Join(l.temp, filepath.Base(name))
		if err := os.WriteFile(place, []byte(files[name]), 0o600); err != nil {
			return err.Error()
		}
		absolute, _ := filepath.Abs(name) // there is a working folder
		replaced = append(replaced, fmt.Sprintf("%q: %q", absolute, place))
	}
	overlay := filepath.Join(l.temp, "overlay.json")
	err = os.WriteFile(overlay, []byte(`{"Replace": {`+strings.Join(replaced, ", ")+`}}`), 0o600)
	if err == nil {
		err = goBuild(ctx, filepath.Join(l.temp, "velocityd-next"), "-overlay", overlay)
	}
	if err != nil {
		return err.Error()
	}
	l.next = filepath.Join(l.temp, "velocityd-next")
	return ""
}

// upgrade migrates to the next program's schema while the former one serves, and then replaces one instance after the
// other.
func upgrade(ctx context.Context, w *world, r *rand.Rand) error {
	for began := time.Now(); ; pause(ctx, 200*time.Millisecond) { // other faults may end it
		_, err := runOn(ctx, w.next, w.ownerDSN(), "migrate", "up")
		if err == nil || ctx.Err() != nil {
			break
		}
		if time.Since(began) > time.Minute {
			return err
		}
	}
	pause(ctx, between(r, 500, 2000))
	return w.roll(ctx, w.next)
}
