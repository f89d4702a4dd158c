package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"
)

// machine describes the machine of a run.
type machine struct {
	cpu    string
	cores  int
	memory string
	kernel string
	system string
	load   string        // the load average before the run
	sync   time.Duration // the median of a small write and its fsync, in the folder of the databases
	commit string
}

// describe reads the machine's description from the system. Facts that the system does not tell stay
// "unknown".
func describe(ctx context.Context, root, dir string) machine {
	m := machine{
		cpu: valueIn("/proc/cpuinfo", "model name"), cores: runtime.NumCPU(),
		kernel: firstLine("/proc/sys/kernel/osrelease"), system: strings.Trim(valueIn("/etc/os-release", "PRETTY_NAME"), `"`),
		memory: valueIn("/proc/meminfo", "MemTotal"), load: firstLine("/proc/loadavg"),
		sync: syncTime(dir), commit: "unknown",
	}
	var kib int64
	if n, _ := fmt.Sscanf(m.memory, "%d kB", &kib); n == 1 {
		m.memory = fmt.Sprintf("%.0f GiB", float64(kib)/(1<<20))
	}
	if words := strings.Fields(m.load); len(words) > 3 {
		m.load = strings.Join(words[:3], ", ")
	}
	cmd := exec.CommandContext(ctx, "git", "describe", "--always", "--dirty")
	cmd.Dir = root
	if out, err := output(ctx, roundLimit, cmd); err == nil {
		m.commit = strings.TrimSpace(string(out))
	}
	return m
}

// valueIn returns the value of a name in a file of lines "name: value" or name=value.
func valueIn(path, name string) string {
	text, err := os.ReadFile(path)
	if err != nil {
		return "unknown"
	}
	for line := range strings.Lines(string(text)) {
		at := strings.IndexAny(line, ":=")
		if at >= 0 && strings.TrimSpace(line[:at]) == name {
			return strings.TrimSpace(line[at+1:])
		}
	}
	return "unknown"
}

func firstLine(path string) string {
	text, err := os.ReadFile(path)
	if err != nil {
		return "unknown"
	}
	line, _, _ := strings.Cut(string(text), "\n")
	return line
}

// syncTime returns the median time of small writes with fsync, or 0 if the folder cannot
// be written.
func syncTime(dir string) time.Duration {
	file, err := os.Create(filepath.Join(dir, "sync-probe"))
	if err != nil {
		return 0
	}
	defer func() { _ = file.Close() }() // its content is not needed
	const tries = 101
	times := make([]time.Duration, tries)
	for i := range times {
		began := time.Now()
		if _, err := file.Write(make([]byte, 512)); err != nil {
			return 0
		}
		if err := file.Sync(); err != nil {
			return 0
		}
		times[i] = time.Since(began)
	}
	slices.Sort(times)
	return times[tries/2]
}
