package main

import (
	"fmt"

	"velocityd/db/localdb"
)

// target is one thing that is wanted of the service, and what was measured.
type target struct {
	what       string
	floor, aim float64 // an aim of 0 is none
	atLeast    bool    // else at most
	unit       string
	found      spread
}

// keeps says whether the median keeps a limit.
func (t target) keeps(limit float64) bool {
	if t.atLeast {
		return t.found.median >= limit
	}
	return t.found.median <= limit
}

// verdict says in words how near the target is.
func (t target) verdict() string {
	switch {
	case t.found.of == 0:
		return "not measured"
	case !t.keeps(t.floor) && t.atLeast:
		return fmt.Sprintf("**missed** by %.0f %%", 100*(1-t.found.median/t.floor))
	case !t.keeps(t.floor):
		return fmt.Sprintf("**missed** by %.0f %%", 100*(t.found.median/t.floor-1))
	case t.aim != 0 && t.keeps(t.aim):
		return "aim met"
	}
	return "floor met"
}

// limits writes the floor and the aim.
func (t target) limits() (floor, aim string) {
	sign := "≤"
	if t.atLeast {
		sign = "≥"
	}
	aim = "–"
	if t.aim != 0 {
		aim = decimal(t.aim) + t.unit
	}
	return fmt.Sprintf("%s %s%s", sign, decimal(t.floor), t.unit), aim
}

// targets holds what was measured on an engine against what is wanted.
func (m *measured) targets(engine localdb.Engine) []target {
	of := func(scenario, contender string) []result { return m.of(scenario, contender, engine) }
	service := func(scenario string) []result { return of(scenario, kindService) }
	atLeast := func(what string, floor, aim float64, found spread) target {
		return target{what: what, floor: floor, aim: aim, atLeast: true, unit: " ×", found: found}
	}
	atMost := func(what string, floor, aim float64, found spread) target {
		return target{what: what, floor: floor, aim: aim, unit: " ×", found: found}
	}
	// How much more time a check takes: its rate as it was, divided by what it is.
	dearer := func(was, is []result) spread { return ratio(was, is, perSecond) }
	faster := func(one, other []result) spread { return ratio(one, other, perSecond) }
	txns := grouped(m.options.history)
	ordinary := service(inHistory) // measured beside what is compared with it
	list := []target{
		atLeast("512 connections over HTTP, throughput against envoyproxy/ratelimit, Redis without persistence", 1, 1.3,
			faster(service(in512), of(in512, kindEnvoy))),
		atLeast("64 connections, the same", 0.65, 1, faster(service(in64), of(in64, kindEnvoy))),
		atMost("the database's CPU for a check at 512, against recording alone", 2.2, 1.7,
			ratio(service(in512), of(inRecording, kindRecording), serverCost)),
		atMost("the service's CPU for a check at 512, against Echo alone", 2.2, 1.6,
			ratio(service(in512), of(in512, kindEcho), serviceCost)),
		atMost("a lone check over HTTP, p50, against the textbook called directly", 1.2, 0.95,
			ratio(service(inLone), of(inLone, kindTextbook), medianTime)),
		atMost("a lone check of user and address over HTTP, p50, against one of one bucket", 1.4, 1.2,
			ratio(service(inPairLone), service(inLone), medianTime)),
		atLeast("user and address, throughput against one bucket, 64 connections", 0.75, 0.95, faster(service(inPair64), service(in64))),
		atLeast("the same, 512 connections", 0.75, 0.95, faster(service(inPair512), service(in512))),
		atLeast("user and address at 64, throughput against envoyproxy/ratelimit without persistence asked for the same pair", 0.6, 1,
			faster(service(inPair64), of(inPair64, kindEnvoy))),
		atMost("a zone with "+grouped(m.options.overrides)+" overrides, half of the buckets have one, time of a check against none", 1.15, 1.05,
			dearer(ordinary, service(inOverrides))),
		atMost("every tenth bucket locked out, time of a check against none", 1.15, 1, dearer(ordinary, service(inLockouts))),
		atLeast("new buckets only, throughput against known ones, 64 connections", 0.8, 0.9, faster(service(inNew), ordinary)),
		atMost("rate 10,000 with 5,000 txns in the window, time of a check against rate 5", 4, 2, dearer(service(inFew), service(inFull))),
		atMost("a history of "+txns+" txns, "+byDay+", time of a check against none", 1.1, 1, dearer(ordinary, of(inHistory, kindHistory))),
		atMost("the same without partitions", 1.5, 1.2, dearer(ordinary, of(inHistory, kindUnpartitioned))),
		atMost("others' p99 while one bucket is flooded, against without", 1.5, 1.2, ratio(service(inFlood), ordinary, longTime)),
		atLeast("one hot bucket, throughput against the textbook's", 20, 30, faster(service(inHot), of(inHot, kindTextbook))),
		atLeast("others' throughput while a foreign session holds one bucket", 0.8, 1, faster(service(inHeld), service(inEight))),
		atLeast("lone checks' throughput beside 40 callers of full-size /v1/checks", 0.3, 0.5, faster(service(inBulk), service(inEight))),
	}
	for _, crowd := range crowds() {
		t := target{what: fmt.Sprintf("the service's memory at %s connections", grouped(crowd.connections)), floor: crowd.floor, unit: " MiB"}
		for _, found := range m.memory {
			if found.engine == engine && found.connections == crowd.connections {
				t.found = spreadOf([]float64{mebibytes(found.resident)})
			}
		}
		list = append(list, t)
	}
	return list
}

// crowd is a number of connections at which the service's memory is read, and
// what it may hold then, in MiB.
type crowd struct {
	connections int
	floor       float64
}

func crowds() []crowd { return []crowd{{500, 60}, {2000, 100}} }

func mebibytes(n int64) float64 { return float64(n) / (1 << 20) }
