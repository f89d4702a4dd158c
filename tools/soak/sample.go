//go:build linux

package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"velocityd/tools/enginetest/program"
)

const mebibyte = 1 << 20

// panel is the series of one kind.
type panel struct {
	Title, Unit string
	Lines       []*line

	bound bound
	isLog bool
}

// line is a series.
type line struct {
	Name   string
	Values []float64
	growth `json:"-"`
}

// The panels, in their order.
const (
	memory = iota
	heap
	goroutines
	descriptors
	connections
	rows
	fileBytes
	p50
	p99
)

// panels are without series at first. The heap is the size at which the collector begins anew, a multiple of what
// lives: the heap itself is a saw. Pools have as many connections as calls once met at once, up to their bound. Rows
// are a saw with a tooth for each run of retention, which looks every 20 s what is due. An engine makes files longer by
// some megabytes at once.
func panels(o options) []*panel {
	tooth := float64(o.pace) * 1.5 * (o.tooth() + 20*time.Second).Seconds() / 1000
	return []*panel{
		{Title: "Resident memory", Unit: "MiB", bound: bound{1.2, 8, 1}},
		{Title: "Go heap at its next collection", Unit: "MiB", bound: bound{1.2, 4, 0.5}},
		{Title: "Goroutines", bound: bound{1.1, 10, 2}},
		{Title: "File descriptors", bound: bound{1.1, 10, 1}},
		{Title: "Database connections", bound: bound{1.5, 6, 1}},
		{Title: "Rows of zone_…", Unit: "thousands", bound: bound{1.3, tooth, 0.1}},
		{Title: "Files of zone_…", Unit: "MiB", bound: bound{1.3, 16, 4}},
		{Title: "Answer, p50", Unit: "ms", bound: bound{3, 5, 0}, isLog: true},
		{Title: "Answer, p99", Unit: "ms", bound: bound{3, 5, 0}, isLog: true},
	}
}

// add adds a sample to a series.
func (r *report) add(panel int, name string, value float64) {
	p := r.Panels[panel]
	for _, l := range p.Lines {
		if l.Name == name {
			l.Values = append(l.Values, value)
			return
		}
	}
	p.Lines = append(p.Lines, &line{Name: name, Values: []float64{value}})
}

// sample takes one sample of each series.
func (r *report) sample(ctx context.Context, w *world) error {
	r.Seconds = append(r.Seconds, math.Round(time.Since(r.Began).Seconds()))
	for _, i := range w.instances {
		if err := r.sampleInstance(ctx, w, i); err != nil {
			return fmt.Errorf("look at %s: %w", i.name, err)
		}
	}
	return errors.Join(r.sampleTables(ctx, w), r.sampleRetention(ctx, w))
}

func (r *report) sampleInstance(ctx context.Context, w *world, i *instance) error {
	i.mu.Lock()
	took := i.took
	i.took = nil
	i.mu.Unlock()
	milliseconds := make([]float64, len(took))
	for n, t := range took {
		milliseconds[n] = float64(t) / 1e6
	}
	r.add(p50, i.name, quantile(milliseconds, 0.5))
	r.add(p99, i.name, quantile(milliseconds, 0.99))
	metrics, err := metricsOf(ctx, i.url)
	if err != nil {
		return err
	}
	r.add(memory, i.name, metrics["process_resident_memory_bytes"]/mebibyte)
	r.add(heap, i.name, metrics["go_memstats_next_gc_bytes"]/mebibyte)
	r.add(goroutines, i.name, metrics["go_goroutines"])
	r.add(descriptors, i.name, metrics["process_open_fds"])
	var sessions float64
	err = w.root.QueryRowContext(ctx, "SELECT COUNT(*) FROM information_schema.processlist WHERE user = ?",
		i.account).Scan(&sessions)
	r.add(connections, i.name, sessions)
	return err
}

// metricsOf returns the metrics without labels.
func metricsOf(ctx context.Context, url string) (map[string]float64, error) {
	status, said, err := program.Ask(ctx, http.MethodGet, url+"/metrics", http.NoBody)
	if err == nil && status != http.StatusOK {
		err = fmt.Errorf("status %d", status)
	}
	if err != nil {
		return nil, fmt.Errorf("read metrics: %w", err)
	}
	metrics := map[string]float64{}
	for lines := bufio.NewScanner(bytes.NewReader(said)); lines.Scan(); {
		if name, text, _ := strings.Cut(lines.Text(), " "); text != "" {
			if value, err := strconv.ParseFloat(text, 64); err == nil {
				metrics[name] = value
			}
		}
	}
	return metrics, nil
}

// sampleTables counts the rows of all tables, and the bytes of their files.
func (r *report) sampleTables(ctx context.Context, w *world) error {
	size := map[string]float64{}
	files, err := filepath.Glob(filepath.Join(w.dir, "data", "velocityd", "*.ibd"))
	if err != nil {
		return err
	}
	for _, file := range files {
		table, _, _ := strings.Cut(strings.TrimSuffix(filepath.Base(file), ".ibd"), "#") // zone_txn#p#later
		// Otherwise its partition was dropped meanwhile.
		if info, err := os.Stat(file); err == nil {
			size[table] += float64(info.Size()) / mebibyte
		}
	}
	for _, table := range sortedKeys(size) {
		var n float64
		if err := w.root.QueryRowContext(ctx, "SELECT COUNT(*) FROM "+table).Scan(&n); err != nil {
			return fmt.Errorf("count %s: %w", table, err)
		}
		r.add(rows, table, n/1000)
		r.add(fileBytes, table, size[table])
	}
	return nil
}

// sampleRetention notes which tasks have removed rows since the last sample.
func (r *report) sampleRetention(ctx context.Context, w *world) error {
	tasks, err := w.root.QueryContext(ctx,
		"SELECT name, ended_at, removed FROM retention_task WHERE ended_at IS NOT NULL")
	if err != nil {
		return err
	}
	defer tasks.Close()
	for tasks.Next() {
		var name string
		var ended time.Time
		var removed int64
		if err := tasks.Scan(&name, &ended, &removed); err != nil {
			return err
		}
		if ended.Equal(r.ended[name]) || removed == 0 {
			continue
		}
		r.ended[name] = ended
		r.Removed[name] += removed
		if name == "old_txns" {
			r.Retained = append(r.Retained, math.Round(ended.Sub(r.Began).Seconds()))
		}
	}
	return tasks.Err()
}
