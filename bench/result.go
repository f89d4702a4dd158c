package main

import (
	"slices"
	"strings"
	"time"

	"velocityd/bench/round"
)

// measured is all that a run found.
type measured struct {
	options   options
	stage     *stage
	machine   machine
	scenarios []scenario
	results   []result
	kept      []kept
	idle      int64 // bytes that the service held before the crowd
	resident  int64 // and with it
	crowd     round.Summary
	gobench   string // what the handler's Go benchmark says
	took      time.Duration
}

// kept is what a contender's tables hold at the end; bytes are those of the files.
type kept struct {
	contender   string
	excess      int64 // attempts let through against the zone's limit
	bytes, txns int64 // of zone_txn
	lockBytes   int64
	locks       int64
}

// chosen are the scenarios whose id is in only, or all of them.
func chosen(all []scenario, only string) []scenario {
	if only == "" {
		return all
	}
	ids := strings.Split(only, ",")
	return slices.DeleteFunc(all, func(s scenario) bool { return !slices.Contains(ids, s.id) })
}

// of lists a contender's results in a scenario, by turn.
func (m *measured) of(scenario, contender string) []result {
	var list []result
	for _, r := range m.results {
		if r.scenario == scenario && r.contender == contender {
			list = append(list, r)
		}
	}
	return list
}

// spread is a median and the extremes around it.
type spread struct{ median, least, most float64 }

// spreadOf describes values; of none it is zero.
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
	return spread{median: median, least: sorted[0], most: sorted[len(sorted)-1]}
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

// ratio divides the one by the other turn by turn, because the machine's pace
// changes within minutes, and describes the quotients. Turns that one of them
// lacks, or in which the other is zero, are left out.
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
