//go:build linux

package main

import (
	"fmt"
	"slices"
)

// bound says how much a series may grow: see the docstring of the program.
type bound struct {
	ratio, slack float64 // of the last tenth over the second one
	least        float64 // slower growth is noise; 0: it need not end
}

// tenths are the parts of a run; the first is for warming up.
const tenths = 10

// leastRising is how many of the 36 pairs of nine medians have to rise in a series that goes on rising.
const leastRising = 33

// growth is what has become of a series.
type growth struct {
	Second, Last float64 // medians of tenths
	Fault        string  // empty: it is as at the beginning
}

// judge compares the tenths of a series.
func (b bound) judge(values []float64) growth {
	medians := mediansOf(values)
	if len(medians) == 0 {
		return growth{Fault: "has too few samples to be judged"}
	}
	g := growth{Second: medians[0], Last: medians[len(medians)-1]}
	rise := g.Last - g.Second
	switch {
	case g.Last > g.Second*b.ratio+b.slack:
		g.Fault = fmt.Sprintf("grew from %.4g to %.4g", g.Second, g.Last)
	case b.least > 0 && rise > max(b.least, g.Second/100) && rising(medians) >= leastRising && goesOn(medians):
		g.Fault = fmt.Sprintf("rises all the time, from %.4g to %.4g", g.Second, g.Last)
	}
	return g
}

// mediansOf returns the medians of all tenths but the first; none if there is a tenth without two samples.
func mediansOf(values []float64) (medians []float64) {
	if len(values) < 2*tenths {
		return nil
	}
	for n := 1; n < tenths; n++ {
		medians = append(medians, median(values[n*len(values)/tenths:(n+1)*len(values)/tenths]))
	}
	return medians
}

// rising counts the pairs of which the later one is higher.
func rising(values []float64) (pairs int) {
	for i, early := range values {
		for _, late := range values[i+1:] {
			if late > early {
				pairs++
			}
		}
	}
	return pairs
}

// goesOn says that the last third is above the middle one by a third of the whole rise at least: it is a half of a
// straight line, and less of a curve that nears its bound.
func goesOn(medians []float64) bool {
	third := len(medians) / 3
	early, middle, late := mean(medians[:third]), mean(medians[third:2*third]), mean(medians[2*third:])
	return 3*(late-middle) >= late-early
}

func mean(values []float64) (m float64) {
	for _, v := range values {
		m += v / float64(len(values))
	}
	return m
}

func median(values []float64) float64 { return quantile(values, 0.5) }

// quantile is the value at a part of the sorted values; 0 of none.
func quantile(values []float64, part float64) float64 {
	if len(values) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(values))
	return sorted[min(int(part*float64(len(sorted))), len(sorted)-1)]
}
