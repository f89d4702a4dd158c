//go:build linux

package main

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"
)

// report is what a run has seen. It is written as JSON.
type report struct {
	Engine                                               string
	Began                                                time.Time
	Duration                                             string
	Pace                                                 int
	Cores                                                int
	Checks, Blocked, Outcomes, Edits, Exported, Followed int64
	Failed                                               map[string]int `json:",omitempty"` // by text
	Removed                                              map[string]int // rows, by task of retention
	Retained                                             []float64      // seconds at which txns were removed
	Seconds                                              []float64      // of the samples
	Panels                                               []*panel

	ended map[string]time.Time // of the tasks of retention
}

func newReport(o options, began time.Time) *report {
	return &report{
		Began: began.UTC(), Pace: o.pace, Cores: runtime.NumCPU(), Removed: map[string]int{}, Panels: panels(o),
		ended: map[string]time.Time{},
	}
}

// end waits for the callers, and judges.
func (r *report) end(w *world, l *load) {
	r.Engine, r.Duration = w.engine, time.Since(r.Began).Round(time.Second).String()
	l.all.Wait()
	r.Checks, r.Blocked, r.Outcomes = l.checks.Load(), l.blocked.Load(), l.outcomes.Load()
	r.Edits, r.Exported, r.Followed, r.Failed = l.edits.Load(), l.exported.Load(), l.followed.Load(), l.faults
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
	for _, task := range []string{"old_partitions", "old_txns", "idle_buckets", "expired_attempts"} {
		if r.Removed[task] == 0 {
			list = append(list, "retention: "+task+" removed nothing")
		}
	}
	return list
}

// print prints the figures and the judgement of each series. Tables that stay small are left out.
func (r *report) print(out io.Writer) {
	fmt.Fprintf(out, "%s, two instances, %s at %d checks a second, %d cores\n", r.Engine, r.Duration, r.Pace, r.Cores)
	fmt.Fprintf(out, "%d checks answered, %d of them blocked; %d outcomes, %d edits and releases; %d txns exported, %d followed\n",
		r.Checks, r.Blocked, r.Outcomes, r.Edits, r.Exported, r.Followed)
	fmt.Fprintf(out, "retention removed")
	for _, task := range sortedKeys(r.Removed) {
		fmt.Fprintf(out, " %d by %s", r.Removed[task], task)
	}
	fmt.Fprintf(out, "\n\n%-34s %-20s %-9s %10s %10s\n", "", "", "", "2nd tenth", "last")
	for _, p := range r.Panels {
		for _, l := range p.Lines {
			if l.Fault != "" || max(l.Second, l.Last) >= 0.1 {
				fmt.Fprintf(out, "%-34s %-20s %-9s %10.4g %10.4g  %s\n", p.Title, l.Name, p.Unit, l.Second, l.Last, l.Fault)
			}
		}
	}
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
