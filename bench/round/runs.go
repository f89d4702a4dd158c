package round

import (
	"encoding/json"
	"fmt"
	"os"
)

// The kinds of processes of a run.
const (
	Load       = "load"
	Velocityd  = "velocityd"
	Vtgate     = "vtgate"
	Vttablet   = "vttablet"
	Mysqld     = "mysqld"
	ZoneTablet = "unsharded vttablet"
	ZoneMysqld = "unsharded mysqld"
	Others     = "others" // etcd and vtorc
)

// Kinds returns the kinds of processes in the order of a check's way.
func Kinds() []string {
	return []string{Load, Velocityd, Vtgate, Vttablet, Mysqld, ZoneTablet, ZoneMysqld, Others}
}

// Runs is what was measured of the service on a cluster, or on one MySQL, on one machine: the
// inputs of the simulation and of the model. It is kept as JSON.
type Runs struct {
	Machine string  `json:"machine"` // a description
	Cores   int     `json:"cores"`   // of the machine, which all processes share
	Fsync   float64 `json:"fsync"`   // milliseconds of a small write and its fsync
	Runs    []Run   `json:"runs"`
}

// Run is one measurement. Times of processors are in microseconds for a check; what was not
// measured is 0 or absent.
type Run struct {
	Name    string `json:"name"`
	Source  string `json:"source"` // where the figures come from, and when
	Shards  int    `json:"shards"` // that hold buckets, 0 on one MySQL without Vitess
	Touched int    `json:"touched"`
	Buckets int    `json:"buckets"` // of a check
	Callers int    `json:"callers"`
	// Hot is the share of the checks that have one second bucket in common.
	Hot       float64            `json:"hot,omitempty"`
	PerSecond float64            `json:"per_second"`
	P50       float64            `json:"p50"` // milliseconds
	P99       float64            `json:"p99"` // milliseconds
	Batch     float64            `json:"batch,omitempty"`
	CPU       map[string]float64 `json:"cpu"`
	Errors    int64              `json:"errors,omitempty"` // calls that were refused or not answered
	// Written is how many bytes the mysqlds of the shards gave to the disk for a check.
	Written float64 `json:"written,omitempty"`
}

// ReadRuns reads a file of runs.
func ReadRuns(path string) (Runs, error) {
	var r Runs
	text, err := os.ReadFile(path)
	if err != nil {
		return r, fmt.Errorf("read the runs: %w", err)
	}
	if err := json.Unmarshal(text, &r); err != nil {
		return r, fmt.Errorf("read the runs in %s: %w", path, err)
	}
	return r, nil
}

// Put adds a run, in the place of one with the same name if there is one.
func (r *Runs) Put(run Run) {
	for i := range r.Runs {
		if r.Runs[i].Name == run.Name {
			r.Runs[i] = run
			return
		}
	}
	r.Runs = append(r.Runs, run)
}

// Write writes the runs into a file.
func (r Runs) Write(path string) error {
	text, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return fmt.Errorf("write the runs: %w", err)
	}
	if err := os.WriteFile(path, append(text, '\n'), 0o644); err != nil { //nolint:gosec // figures for everybody
		return fmt.Errorf("write the runs: %w", err)
	}
	return nil
}
