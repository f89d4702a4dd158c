//go:build linux

package main

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"
)

// report is what a run has seen. It is written as JSON.
type report struct {
	Engine      string
	Began       time.Time
	Minutes     float64
	Pace, Cores int
	Done        map[string]int64 // calls and items, by kind
	Failed      map[string]int64 // calls, by text
	Removed     map[string]int64 // rows, by task of retention
	Retained    []float64        // seconds at which txns were removed
	Seconds     []float64        // of the samples
	Panels      []*panel

	ended map[string]time.Time // of the tasks of retention
}

func newReport(o options, engine string) *report {
	return &report{
		Engine: engine, Began: time.Now().UTC(), Pace: o.pace, Cores: runtime.NumCPU(), Removed: map[string]int64{},
		Panels: panels(o), ended: map[string]time.Time{},
	}
}

// end waits for the callers, and judges.
func (r *report) end(l *load) {
	r.Minutes = math.Round(10*time.Since(r.Began).Minutes()) / 10
	l.all.Wait()
	r.Done, r.Failed = l.done, l.failed
	for _, p := range r.Panels {
		for _, s := range p.Lines {
			s.growth = p.bound.judge(s.Values)
		}
	}
}

// faults says what is not as at the beginning.
func (r *report) faults() (list []string) {
	for _, p := range r.Panels {
		for _, l := range p.Lines {
			if l.Fault != "" {
				list = append(list, strings.TrimSpace(fmt.Sprintf("%s of %s %s %s", p.Title, l.Name, l.Fault, p.Unit)))
			}
		}
	}
	for _, text := range sortedKeys(r.Failed) {
		list = append(list, fmt.Sprintf("%d times %s", r.Failed[text], text))
	}
	if n := r.Done[vain]; n > r.Done["checks"]/100 {
		list = append(list, fmt.Sprintf("%d %s", n, vain))
	}
	for _, task := range []string{"old_partitions", "old_txns", "idle_buckets", "expired_attempts"} {
		if r.Removed[task] == 0 {
			list = append(list, "retention: "+task+" removed nothing")
		}
	}
	return list
}

// print prints the figures and the judgement of each series. Tables that stay small are left out.
func (r *report) print(out io.Writer) {
	fmt.Fprintf(out, "%s, 2 instances, %g minutes at %d checks a second, %d cores\n", r.Engine, r.Minutes, r.Pace, r.Cores)
	fmt.Fprintf(out, "done: %s\nremoved by retention: %s\n\n", counted(r.Done), counted(r.Removed))
	fmt.Fprintf(out, "%-64s %10s %10s\n", "", "2nd tenth", "last")
	for _, p := range r.Panels {
		for _, l := range p.Lines {
			if l.Fault != "" || max(l.Second, l.Last) >= 0.1 {
				fmt.Fprintf(out, "%-34s %-20s %-9s %10.4g %10.4g  %s\n", p.Title, l.Name, p.Unit, l.Second, l.Last, l.Fault)
			}
		}
	}
}

// counted writes numbers with their names.
func counted(numbers map[string]int64) string {
	var parts []string
	for _, name := range sortedKeys(numbers) {
		text := strconv.FormatInt(numbers[name], 10)
		for i := len(text) - 3; i > 0; i -= 3 {
			text = text[:i] + "," + text[i:]
		}
		parts = append(parts, text+" "+name)
	}
	return strings.Join(parts, ", ")
}

// write writes the chart, and the numbers beside it.
func (r *report) write(chart string) error {
	if err := os.MkdirAll(filepath.Dir(chart), 0o755); err != nil { //nolint:gosec // a folder of the checkout
		return err
	}
	picture, err := r.draw()
	if err != nil {
		return err
	}
	numbers, err := json.Marshal(r)
	if err != nil {
		return err
	}
	if err := os.WriteFile(chart, picture, 0o644); err != nil { //nolint:gosec // to be committed
		return err
	}
	beside := strings.TrimSuffix(chart, filepath.Ext(chart)) + ".json"
	return os.WriteFile(beside, append(numbers, '\n'), 0o644) //nolint:gosec // to be committed
}

// sortedKeys returns the keys of a map in order.
func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
