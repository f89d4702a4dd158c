//go:build linux

package main

import (
	"math"
	"math/rand/v2"
	"strings"
	"testing"
)

// memoryLike makes samples of a run: a level of 60 with noise of 0.5, and what a function of the part of the run adds.
func memoryLike(seed uint64, more func(part float64) float64) []float64 {
	random := rand.New(rand.NewPCG(seed, 0))
	values := make([]float64, 240)
	for n := range values {
		values[n] = 60 + random.NormFloat64()/2 + more(float64(n)/float64(len(values)))
	}
	return values
}

func TestGrowthIsTold(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		more func(part float64) float64
		want string // in the fault; empty: none
	}{
		"flat":               {func(float64) float64 { return 0 }, ""},
		"warm-up alone":      {func(part float64) float64 { return -40 * math.Exp(-50*part) }, ""},
		"a saw":              {func(part float64) float64 { return 10 * math.Mod(part*40, 1) }, ""},
		"rare peaks":         {func(part float64) float64 { return 500 * math.Floor(math.Mod(part*40, 1)+0.1) }, ""},
		"a cache that fills": {func(part float64) float64 { return 8 * (1 - math.Exp(-6*part)) }, ""},
		"less":               {func(part float64) float64 { return -30 * part }, ""},
		"a fast leak":        {func(part float64) float64 { return 60 * part }, "grew from"},
		"a slow leak":        {func(part float64) float64 { return 6 * part }, "rises all the time"},
		"a slow leak in a saw": {
			func(part float64) float64 { return 8*part + 10*math.Mod(part*40, 1) }, "rises all the time",
		},
		"a leak that begins late": {
			func(part float64) float64 { return max(0, 60*(part-0.5)) }, "grew from",
		},
		"a step": {
			func(part float64) float64 {
				if part < 0.6 {
					return 0
				}
				return 25
			}, "grew from",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for seed := range uint64(50) {
				g := bound{1.2, 8, 1}.judge(memoryLike(seed, test.more))
				if (g.Fault == "") != (test.want == "") || !strings.HasPrefix(g.Fault, test.want) {
					t.Fatalf("seed %d: %q, want %q", seed, g.Fault, test.want)
				}
			}
		})
	}
}

func TestNoiseIsSeldomALeak(t *testing.T) {
	t.Parallel()
	told := 0
	const series = 10_000
	for seed := range uint64(series) {
		if (bound{1, 60, 1e-9}).judge(memoryLike(seed, func(float64) float64 { return -60 })).Fault != "" {
			told++
		}
	}
	if told > series/1000 {
		t.Errorf("%d of %d series of noise rise all the time", told, series)
	}
}

func TestCountsThatRiseAreTold(t *testing.T) {
	t.Parallel()
	values := make([]float64, 240)
	for n := range values {
		values[n] = 40 + float64(n/40) // a goroutine more now and then
	}
	if g := (bound{1.5, 10, 2}).judge(values); !strings.HasPrefix(g.Fault, "rises") || g.Second != 40 || g.Last != 45 {
		t.Errorf("judge = %+v, want that it rises from 40 to 45", g)
	}
	if g := (bound{1.1, 10, 2}).judge(values[:tenths]); g.Fault == "" {
		t.Error("ten samples are judged")
	}
}

func TestLatencyNeedNotEnd(t *testing.T) {
	t.Parallel()
	slower := func(times float64) growth {
		return bound{3, 5, 0}.judge(memoryLike(1, func(part float64) float64 { return 60 * (times - 1) * part }))
	}
	if g := slower(2.5); g.Fault != "" {
		t.Errorf("2.5 times slower: %s", g.Fault)
	}
	if g := slower(6); g.Fault == "" {
		t.Error("6 times slower is no fault")
	}
}
