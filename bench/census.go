package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"time"

	"velocityd/bench/round"
)

// census is the processes of a cluster, by their kind. Each was started by somebody else, and is
// only looked at.
type census map[string][]int

// counters are what processes of a kind have used since they began.
type counters struct {
	cpu     time.Duration
	written int64 // bytes given to the disk; 0 where the system does not tell
}

// parseCensus reads kind=pid,kind=pid.
func parseCensus(text string) (census, error) {
	c := census{}
	for pair := range strings.SplitSeq(text, ",") {
		kind, number, _ := strings.Cut(pair, "=")
		pid, err := strconv.Atoi(number)
		if err != nil || kind == "" {
			return nil, fmt.Errorf("read -pids: %q is not kind=pid", pair)
		}
		c[kind] = append(c[kind], pid)
	}
	return c, nil
}

// findCensus finds the processes of a cluster among all that a process has started, and that these
// have started: `make bench-cluster` runs beside the cluster, below one process.
func findCensus(parent int) (census, error) {
	lines, parents, err := processes()
	if err != nil {
		return nil, err
	}
	below := func(pid int) bool {
		for range 20 { // deeper is no tree of ours
			if pid = parents[pid]; pid == parent {
				return true
			}
		}
		return false
	}
	for pid := range lines {
		if !below(pid) {
			delete(lines, pid)
		}
	}
	c := sortProcesses(lines)
	if len(c[round.Vtgate]) == 0 || len(c[round.Mysqld]) == 0 {
		return nil, errors.New("find the cluster: no vtgate and mysqld beside this program; name them with -pids")
	}
	return c, nil
}

// processes returns the command lines and the parents of all processes.
func processes() (lines map[int][]string, parents map[int]int, err error) {
	folders, err := filepath.Glob("/proc/[0-9]*")
	if err != nil {
		return nil, nil, fmt.Errorf("list processes: %w", err)
	}
	lines, parents = map[int][]string{}, map[int]int{}
	for _, folder := range folders {
		pid, err := strconv.Atoi(filepath.Base(folder))
		if err != nil {
			continue
		}
		line, lineErr := os.ReadFile(filepath.Join(folder, "cmdline"))
		stat, statErr := os.ReadFile(filepath.Join(folder, "stat"))
		if lineErr != nil || statErr != nil {
			continue // it has ended
		}
		fields := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))
		if len(fields) < 2 {
			continue
		}
		if parents[pid], err = strconv.Atoi(fields[1]); err == nil {
			lines[pid] = strings.Split(strings.TrimRight(string(line), "\x00"), "\x00")
		}
	}
	return lines, parents, nil
}

// sortProcesses tells the kinds of a cluster's processes from their command lines. A mysqld belongs to
// the vttablet whose number its folder ends in.
func sortProcesses(lines map[int][]string) census {
	unsharded := map[string]bool{} // by the number of the tablet
	c := census{}
	for pid, line := range lines {
		all := strings.Join(line, " ")
		switch filepath.Base(line[0]) {
		case "vtgate":
			c[round.Vtgate] = append(c[round.Vtgate], pid)
		case "etcd", "vtorc":
			c[round.Others] = append(c[round.Others], pid)
		case "vttablet":
			kind := round.Vttablet
			if strings.Contains(all, "-shard=0") || strings.Contains(all, "-shard 0") {
				kind = round.ZoneTablet
				unsharded[tabletNumber(all)] = true
			}
			c[kind] = append(c[kind], pid)
		}
	}
	for pid, line := range lines {
		all := strings.Join(line, " ")
		at := regexp.MustCompile(`--datadir=\S*mysql-0*(\d+)`).FindStringSubmatch(all)
		if at == nil || !strings.Contains(all, "mysqld") {
			continue
		}
		kind := round.Mysqld
		if unsharded[at[1]] {
			kind = round.ZoneMysqld
		}
		c[kind] = append(c[kind], pid)
	}
	return c
}

// tabletNumber returns the number of a vttablet's --tablet-path, without leading zeros.
func tabletNumber(line string) string {
	at := regexp.MustCompile(`-tablet-path[= ]\S+?-0*(\d+)(\s|$)`).FindStringSubmatch(line)
	if at == nil {
		return ""
	}
	return at[1]
}

// look reads the counters of all kinds.
func (c census) look() (map[string]counters, error) {
	all := map[string]counters{}
	for kind, pids := range c {
		var sum counters
		for _, pid := range pids {
			cpu, err := cpuOf(pid)
			if err != nil {
				return nil, fmt.Errorf("look at %s %d: %w", kind, pid, err)
			}
			sum.cpu += cpu
			sum.written += writtenBy(pid)
		}
		all[kind] = sum
	}
	return all, nil
}

// writtenBy returns how many bytes a process has given to the disk, or 0 if that cannot be known.
func writtenBy(pid int) int64 {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/io", pid))
	if err != nil {
		return 0
	}
	for line := range strings.Lines(string(text)) {
		var n int64
		if found, _ := fmt.Sscanf(line, "write_bytes: %d", &n); found == 1 {
			return n
		}
	}
	return 0
}
