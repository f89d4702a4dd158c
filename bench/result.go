package main

import (
	"slices"

	"velocityd/bench/workload"
)

// measured is all that a run found.
type measured struct {
	options   options
	stage     *stage
	scenarios []scenario
	results   []result
	kept      []kept
	memory    []memory
	gaps      []gap
}

// kept describes a contender's tables at the end. bytes is the length of their files.
type kept struct {
	contender   *contender
	excess      int64 // attempts that were allowed against the zone's limit
	bytes, txns int64 // of zone_txn
	lockBytes   int64
	locks       int64
}

// memory is the most memory that an instance of a service held, in bytes, at a number
// of connections.
type memory struct {
	contender   *contender
	connections int
	resident    int64
	workload.Summary
}

// gap is the answers a second without a locked gap, and the answers beside one.
type gap struct {
	contender *contender
	without   float64
	workload.Summary
}

// share is the part of the throughput that is left beside a locked gap.
func (g gap) share() float64 { return g.PerSecond() / max(g.without, 1) }

// of returns the results of a kind of contender in a scenario, by turn: those on an
// engine, and those of contenders without an engine, such as rivals on Redis.
func (m *measured) of(scenario, kind string, e *engine) []result {
	return m.where(func(r result) bool {
		c := r.contender
		return r.scenario == scenario && c.kind == kind && !c.isBefore && (c.engine == e || c.engine == nil)
	})
}

// by returns the results of one contender in a scenario.
func (m *measured) by(scenario string, c *contender) []result {
	return m.where(func(r result) bool { return r.scenario == scenario && r.contender == c })
}

func (m *measured) where(fits func(result) bool) (list []result) {
	for _, r := range m.results {
		if fits(r) {
			list = append(list, r)
		}
	}
	return list
}

// spread is the median, the extremes and the number of some values.
type spread struct {
	median, least, most float64
	of                  int
}

// spreadOf returns the spread of values. Without values it is zero.
func spreadOf(values []float64) spread {
	if len(values) == 0 {
		return spread{}
	}
	sorted := slices.Sorted(slices.Values(values))
	middle := len(sorted) / 2
	median := sorted[middle]
	if len(sorted)%2 == 0 {
		median = (sorted[middle-1] + sorted[middle]) / 2
	}
	return spread{median: median, least: sorted[0], most: sorted[len(sorted)-1], of: len(sorted)}
}

// values applies f to each result.
func values(list []result, f func(result) float64) []float64 {
	out := make([]float64, len(list))
	for i, r := range list {
		out[i] = f(r)
	}
	return out
}

func perSecond(r result) float64  { return r.PerSecond() }
func medianTime(r result) float64 { return float64(r.P50) }
func longTime(r result) float64   { return float64(r.P99) }

// ratio divides one by the other for each turn, because the machine's pace changes within
// minutes, and returns the spread of the quotients. It leaves out turns that one of them
// lacks, or in which the other is zero.
func ratio(one, other []result, f func(result) float64) spread {
	byTurn := map[int]float64{}
	for _, r := range other {
		byTurn[r.turn] = f(r)
	}
	var quotients []float64
	for _, r := range one {
		if divisor := byTurn[r.turn]; divisor != 0 {
			quotients = append(quotients, f(r)/divisor)
		}
	}
	return spreadOf(quotients)
}
