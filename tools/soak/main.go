//go:build linux

// Command soak runs two real instances of velocityd on a real engine at a steady pace for long, and judges whether at
// the end all is as at the beginning: memory, goroutines, descriptors, connections, rows, bytes and latency.
//
//	go run ./tools/soak -duration 1h                         on MySQL
//	go run ./tools/soak -engine mariadb-11.8 -chart docs/soak.svg
//
// Callers check over HTTP in an open loop, with hot, cold and new keys, one or two buckets and outcomes. All the time
// zones are edited, buckets released, the history exported, and txns and events followed, by some who read slowly. The
// least that retention keeps is two days. So all rows that are older than a twentieth of the run are given a date five
// days ago, again and again, and the runners in the instances are told that their tasks are due: they delete as many
// rows as come, and drop a partition each time.
//
// # The judgement
//
// The first tenth of a run is for warming up: pools and caches fill. Of each series the medians of the other nine
// tenths are taken, because one collection of garbage or one export must decide nothing. A series has grown
//
//   - if its last median is above the first one of the nine by more than a ratio and a slack: see the bounds in
//     sample.go. This finds steps and fast leaks.
//   - or if it goes on rising: at least 33 of the 36 pairs of medians rise, which noise does once in 2,000 series; the
//     last third rises as much as a line does, and not as a cache that fills; and the rise is a percent and a small
//     slack at least. This finds slow leaks, which no ratio does.
//
// Latency has a ratio of 3 alone: other work on the machine must not decide. For the same reason one call in a hundred
// checks may be in vain, that is busy, or without an answer in time, although checks and followers come again by
// themselves. A call that fails otherwise, or a run in which retention removed nothing, fails the soak, too. Then the
// exit code is 1.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"velocityd/tools/enginetest/program"
)

// options are the flags.
type options struct {
	engine   string
	duration time.Duration
	pace     int
	chart    string
}

// tooth is the time between two runs of retention, of which a short run has fewer.
func (o options) tooth() time.Duration { return max(15*time.Second, o.duration/40) }

func main() {
	var o options
	flag.StringVar(&o.engine, "engine", "mysql", "mysql or mariadb-11.8")
	flag.DurationVar(&o.duration, "duration", time.Hour, "how long; at least 3m")
	flag.IntVar(&o.pace, "pace", 100, "checks a second, of both instances together")
	flag.StringVar(&o.chart, "chart", "", "the `file` for the chart, beside which are its numbers as .json; "+
		"default: bin/soak-ENGINE.svg")
	flag.Parse()
	if o.chart == "" {
		o.chart = filepath.Join("bin", "soak-"+o.engine+".svg")
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, o); err != nil {
		fmt.Fprintln(os.Stderr, "soak:", err)
		os.Exit(1)
	}
}

// run makes the world, soaks, and judges. A run that is interrupted is judged by what there is.
func run(ctx context.Context, o options) error {
	if o.duration < 3*time.Minute || o.pace < 1 {
		return errors.New("a soak takes 3 minutes and a check a second at least")
	}
	temp, err := os.MkdirTemp("", "vs-") // short, because a socket's path is
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(temp) }()
	binary := filepath.Join(temp, "velocityd")
	if err := program.Build(ctx, binary); err != nil {
		return err
	}
	w, err := open(ctx, o.engine, temp, binary)
	if err != nil {
		return err
	}
	defer w.close()
	r, err := soak(ctx, o, w)
	if err != nil {
		return err
	}
	r.print(os.Stdout)
	if err := r.write(o.chart); err != nil {
		return err
	}
	if faults := r.faults(); len(faults) > 0 {
		return fmt.Errorf("%d things are not as at the beginning: %q", len(faults), faults)
	}
	return nil
}

// soak keeps callers, editors, readers and retention going for the time of the run, and takes samples.
func soak(ctx context.Context, o options, w *world) (*report, error) {
	r := newReport(o, w.engine)
	ctx, cancel := context.WithTimeout(ctx, o.duration)
	defer cancel()
	load := startLoad(ctx, o, w)
	retain := time.NewTicker(o.tooth())
	sample := time.NewTicker(max(time.Second, o.duration/240))
	defer retain.Stop()
	defer sample.Stop()
	for ctx.Err() == nil {
		select {
		case <-ctx.Done():
		case <-retain.C:
			if err := w.outdate(ctx, o.duration/20); err != nil && ctx.Err() == nil {
				load.fault("outdate rows", err)
			}
		case <-sample.C:
			if err := r.sample(context.WithoutCancel(ctx), w); err != nil { // a part of a sample would be none
				return nil, err
			}
		}
	}
	if len(r.Seconds) == 0 {
		return nil, errors.New("the run ended before its first sample")
	}
	r.end(load)
	return r, nil
}

// pause waits, or until the end of ctx.
func pause(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}
