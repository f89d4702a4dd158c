package main

import (
	"encoding/xml"
	"errors"
	"io"
	"math"
	"strings"
	"testing"
	"time"

	"velocityd/bench/round"
	"velocityd/bench/sim"
)

const us = time.Microsecond

// known are costs that the tests know.
func known() sim.Costs {
	return sim.Costs{
		Load: sim.Cost{Check: 20 * us}, Service: sim.Cost{Batch: 400 * us, Bucket: 10 * us, Check: 40 * us},
		Gate: sim.Cost{Batch: 300 * us, Part: 500 * us, Bucket: 20 * us}, Tablet: sim.Cost{Part: 600 * us, Bucket: 10 * us},
		Server: sim.Cost{Part: 700 * us, Bucket: 35 * us}, ZoneTablet: sim.Cost{Batch: 250 * us}, ZoneServer: sim.Cost{Batch: 200 * us},
	}
}

// runOf makes a run that costs exactly what known says.
func runOf(name string, batch float64, buckets, touched int) round.Run {
	r := round.Run{Name: name, Shards: 2, Touched: touched, Buckets: buckets, Callers: 64, Batch: batch, PerSecond: 1, P50: 1, P99: 1, CPU: map[string]float64{}}
	did, c := termsOf(r), known()
	for kind, cost := range map[string]sim.Cost{
		round.Load: c.Load, round.Velocityd: c.Service, round.Vtgate: c.Gate, round.Vttablet: c.Tablet, round.Mysqld: c.Server,
		round.ZoneTablet: c.ZoneTablet, round.ZoneMysqld: c.ZoneServer,
	} {
		for i, d := range []time.Duration{cost.Batch, cost.Part, cost.Bucket, cost.Check} {
			r.CPU[kind] += did[i] * d.Seconds() * 1e6
		}
	}
	return r
}

func TestCostsThatMadeTheRunsAreFound(t *testing.T) {
	t.Parallel()
	f, err := fit([]round.Run{
		runOf("a", 1, 2, 1), runOf("b", 30, 1, 1), runOf("c", 120, 1, 1), runOf("d", 60, 2, 1), runOf("e", 1, 2, 2), runOf("f", 60, 2, 2),
		{Name: "not counted", CPU: map[string]float64{round.Mysqld: 1e9}},
	})
	if err != nil {
		t.Fatal(err)
	}
	for name, pair := range map[string][2]time.Duration{
		"service, batch": {f.costs.Service.Batch, known().Service.Batch}, "service, check": {f.costs.Service.Check, known().Service.Check},
		"gate, part": {f.costs.Gate.Part, known().Gate.Part}, "gate, batch": {f.costs.Gate.Batch, known().Gate.Batch},
		"server, part": {f.costs.Server.Part, known().Server.Part}, "server, bucket": {f.costs.Server.Bucket, known().Server.Bucket},
		"zones": {f.costs.ZoneTablet.Batch, known().ZoneTablet.Batch}, "load": {f.costs.Load.Check, known().Load.Check},
	} {
		if math.Abs(pair[0].Seconds()/pair[1].Seconds()-1) > 0.03 {
			t.Errorf("%s is %v, not %v", name, pair[0], pair[1])
		}
	}
	if _, err := fit([]round.Run{runOf("alone", 1, 1, 1)}); err == nil {
		t.Error("one run is enough")
	}
}

func TestNoCostIsBelowZero(t *testing.T) {
	t.Parallel()
	// Longer batches that cost more would ask for a negative cost of a batch.
	a, b := runOf("a", 10, 1, 1), runOf("b", 100, 1, 1)
	a.CPU[round.Mysqld], b.CPU[round.Mysqld] = 50, 100
	f, err := fit([]round.Run{a, b})
	if err != nil || f.costs.Server.Part < 0 || f.costs.Server.Bucket <= 0 {
		t.Errorf("%+v, %v", f.costs.Server, err)
	}
}

func TestAPlanHasTheCoresThatItsArithmeticNeeds(t *testing.T) {
	t.Parallel()
	for _, perSecond := range []float64{50_000, 250_000, 1_000_000} {
		for _, buckets := range []int{1, 2} {
			p := newPlan(perSecond, buckets, true, known(), 150*us)
			if !p.exists() {
				if buckets == 1 {
					t.Errorf("%.0f checks/s of one bucket have no plan", perSecond)
				}
				continue
			}
			if used := p.need.server / float64(p.shards*cores); used > busy+1e-9 {
				t.Errorf("%.0f/s, %d buckets: %d shards are busy %.2f", perSecond, buckets, p.shards, used)
			}
			if used := p.need.service / float64(p.instances*cores); used > busy+1e-9 {
				t.Errorf("%.0f/s, %d buckets: %d instances are busy %.2f", perSecond, buckets, p.instances, used)
			}
			if p.batch < 1 || p.batch > longest || p.parts < 1 || p.parts > float64(p.shards) {
				t.Errorf("%.0f/s, %d buckets: %.1f checks in a batch on %.1f of %d shards", perSecond, buckets, p.batch, p.parts, p.shards)
			}
			// 90 days of so many txns.
			if want := perSecond * float64(buckets) * txnBytes * keptDays * 86_400; p.need.kept != want {
				t.Errorf("%.0f bytes of history, not %.0f", p.need.kept, want)
			}
		}
	}
}

func TestAPlannedShardDecidesInTheSimulationWhatItShall(t *testing.T) {
	t.Parallel()
	p := newPlan(20_000, 1, true, known(), 150*us)
	c := curve{buckets: 1, sticky: homes}.config(p.shards, known(), 150*us, 300*time.Millisecond)
	c.Traffic.PerSecond, c.Service.Count, c.Gate.Count = p.perSecond, p.instances, max(p.gates, homes)
	r, err := sim.Run(c)
	if err != nil {
		t.Fatal(err)
	}
	if r.PerSecond < 0.97*r.Asked || r.Use("mysqld").Most > 2*busy {
		t.Errorf("planned for %.0f/s: %.0f of %.0f checks/s, mysqlds used %.2f", p.perSecond, r.PerSecond, r.Asked, r.Use("mysqld").Most)
	}
}

func TestAHotBucketGainsByBatches(t *testing.T) {
	t.Parallel()
	one, many := hot(1, known(), 150*us), hot(125, known(), 150*us)
	if one < 50 || one > 2_000 || many < 10*one {
		t.Errorf("a hot bucket is asked %.0f times a second alone, %.0f in batches", one, many)
	}
}

func TestTheSimulationIsHeldAgainstEachRun(t *testing.T) {
	t.Parallel()
	runs := round.Runs{Cores: 2, Fsync: 0.15}
	all, err := hold(runs, []round.Run{runOf("a run", 30, 1, 2)}, known(), 200*time.Millisecond)
	if err != nil || len(all) != 1 || all[0].simulated.PerSecond == 0 {
		t.Fatalf("%+v, %v", all, err)
	}
	var b strings.Builder
	writeHeld(&b, all)
	for _, want := range []string{"| a run | checks/s | 1 |", "p50, ms", "CPU vtgate", "CPU mysqld", " % |"} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("the table lacks %q:\n%s", want, b.String())
		}
	}
}

func TestTheChartIsWellFormedAndNamesEachCurve(t *testing.T) {
	t.Parallel()
	all := curves()
	for i := range all {
		all[i].name += " <&>"
		all[i].points = []point{{1, sim.Result{PerSecond: 1000}}, {64, sim.Result{PerSecond: 1e6}}}
	}
	image := chart(all)
	decoder := xml.NewDecoder(strings.NewReader(image))
	for {
		if _, err := decoder.Token(); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
	}
	if got := strings.Count(image, "&lt;&amp;&gt;"); got != len(all) {
		t.Errorf("%d names of %d curves", got, len(all))
	}
	if !strings.Contains(image, "prefers-color-scheme: dark") {
		t.Error("it has no dark form")
	}
}
