//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"velocityd/tools/enginetest/program"
)

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
		if time.Since(began) > 20*time.Second { // another fault may have ended the engine for good
			_ = w.startEngine(ctx)
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

// lockWaits is a session that locks some buckets and leaves them locked for a while.
func lockWaits(statement string) func(context.Context, *world, *rand.Rand) error {
	return func(ctx context.Context, w *world, r *rand.Rand) error {
		for range 1 + r.IntN(4) {
			if tx, err := w.root.BeginTx(ctx, nil); err == nil {
				_, _ = tx.ExecContext(ctx, statement) // it may wait itself, or the engine be away
				pause(ctx, between(r, 200, 3500))
				_ = tx.Rollback()
			}
			pause(ctx, between(r, 100, 800))
		}
		return nil
	}
}

func mountDisk(folder string) error {
	return syscall.Mount("tmpfs", folder, "tmpfs", 0, "size=600m,mode=0700")
}

func needsDisk(_ context.Context, l *lab) error {
	folder := filepath.Join(l.temp, "disk")
	if err := errors.Join(os.Mkdir(folder, 0o700), mountDisk(folder)); err != nil {
		return fmt.Errorf("mount a small disk, which takes root: %w", err)
	}
	return syscall.Unmount(folder, 0)
}

// fillDisk fills the small disk of the engine. An engine that has ended by it, or still waits, is started again as an
// operator does.
func fillDisk(ctx context.Context, w *world, r *rand.Rand) error {
	path := filepath.Join(w.dir, "data", "filler")
	file, err := os.Create(path)
	if err != nil {
		return err
	}
	for piece := make([]byte, 1<<20); err == nil; { // the last bytes, too
		_, err = file.Write(piece)
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

func needsFaketime(context.Context, *lab) error {
	if faketime() == "" {
		return errors.New("there is no libfaketime: tools/install.sh faketime")
	}
	return nil
}

func (w *world) clockFile() string { return filepath.Join(w.dir, "clock") }

func (w *world) clockEnviron() map[string]string {
	return map[string]string{
		"LD_PRELOAD": faketime(), "FAKETIME_TIMESTAMP_FILE": w.clockFile(), "FAKETIME_CACHE_DURATION": "1",
		"FAKETIME_DONT_FAKE_MONOTONIC": "1", "FAKETIME_DONT_RESET": "1",
		"FAKETIME_FORCE_MONOTONIC_FIX": "0", // with it MySQL's threads find their waits ended all the time
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

// clockBack is how many milliseconds the engine's clock goes back at most.
const clockBack = 5000

// stepClock sets the engine's clock some times, and right in the end. Limits are judged until then: afterwards the
// callers' clocks tell nothing of windows.
func stepClock(ctx context.Context, w *world, r *rand.Rand) error {
	w.stepped.Store(int64(w.now()))
	for range 2 + r.IntN(2) {
		if err := w.setClock(between(r, -clockBack, 7000)); err != nil {
			return err
		}
		pause(ctx, between(r, 1200, 4000))
	}
	err := w.setClock(0)
	pause(ctx, 4*time.Second)
	return err
}

func retention(ctx context.Context, w *world, r *rand.Rand) error {
	for range 1 + r.IntN(2) {
		_, _ = program.Run(ctx, w.begins, w.ownerDSN(), "retain") // another fault may end it
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
		_, err := program.Run(ctx, w.begins, w.ownerDSN(), "subject", "erase", erasable, "--reason", "faults", "--yes")
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
func rollingRestart(ctx context.Context, w *world, _ *rand.Rand) error { return w.roll(ctx, w.begins) }

func (w *world) roll(ctx context.Context, binary string) (err error) {
	for _, i := range w.instances {
		i.away(func() {
			i.process.Signal(syscall.SIGTERM)
			if !i.process.Await(25 * time.Second) {
				err = errors.New("an instance does not stop")
				return
			}
			i.binary = binary
			err = errors.Join(err, i.start())
			_ = program.AwaitReady(ctx, i.address, 20*time.Second) // the engine may be away
		})
	}
	return err
}

func needsFormer(ctx context.Context, l *lab) (err error) {
	l.former, err = program.BuildFormer(ctx, l.temp)
	return err
}

// upgrade migrates to this checkout's schema while the former program serves, and then replaces its instances.
func upgrade(ctx context.Context, w *world, r *rand.Rand) error {
	began := time.Now()
	for tries := 0; ; tries++ { // other faults may end it
		_, err := program.Run(ctx, w.binary, w.ownerDSN(), "migrate", "up")
		if err == nil || ctx.Err() != nil {
			break
		}
		if time.Since(began) > time.Minute {
			return err
		}
		// A step that ended half-way was carried out or not: one is tried, and then the other.
		w.dba(ctx, fmt.Sprintf("UPDATE schema_migrations SET version = version - %d, dirty = 0 WHERE dirty", 1-tries%2))
		pause(ctx, 200*time.Millisecond)
	}
	pause(ctx, between(r, 500, 2000))
	return w.roll(ctx, w.binary)
}
