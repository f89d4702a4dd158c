package main

import (
	"fmt"
	"slices"

	"velocityd/db/localdb"
)

// target is a limit that the service should keep, and what was measured.
type target struct {
	what       string
	floor, aim float64 // an aim of 0 means that there is none
	atLeast    bool    // whether the limits are lower limits; otherwise they are upper ones
	unit       string
	found      spread
}

// keeps reports whether the median keeps a limit.
func (t target) keeps(limit float64) bool {
	if t.atLeast {
		return t.found.median >= limit
	}
	return t.found.median <= limit
}

// verdict returns in words whether the target is met.
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

// limits returns the texts of the floor and the aim.
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

// targets returns what is wanted of the service, with what was measured on an engine.
func (m *measured) targets(engine localdb.Engine) []target {
	of := func(scenario, contender string) []result { return m.of(scenario, contender, engine) }
	return slices.Concat(checkTargets(of), settingTargets(of, m.options), neighbourTargets(of), m.memoryTargets(engine))
}

// resultsOf returns the results of a contender in a scenario.
type resultsOf func(scenario, contender string) []result

func (of resultsOf) service(scenario string) []result { return of(scenario, kindService) }

// faster returns the throughput of one divided by that of other.
func faster(one, other []result) spread { return ratio(one, other, perSecond) }

// dearer returns how many times as long a check takes now as before: the throughput
// before divided by that now.
func dearer(before, now []result) spread { return ratio(before, now, perSecond) }

func atLeast(what string, floor, aim float64, found spread) target {
	return target{what: what, floor: floor, aim: aim, atLeast: true, unit: " ×", found: found}
}

func atMost(what string, floor, aim float64, found spread) target {
	return target{what: what, floor: floor, aim: aim, unit: " ×", found: found}
}

// checkTargets are about ordinary checks, against other contenders.
func checkTargets(of resultsOf) []target {
	return []target{
		atLeast("512 connections over HTTP, throughput against envoyproxy/ratelimit, Redis without persistence", 1, 1.3,
			faster(of.service(in512), of(in512, kindEnvoy))),
		atLeast("64 connections, the same", 0.65, 1, faster(of.service(in64), of(in64, kindEnvoy))),
		atMost("the database's CPU for a check at 512, against recording alone", 2.2, 1.7,
			ratio(of.service(in512), of(inRecording, kindRecording), serverCost)),
		atMost("the service's CPU for a check at 512, against Echo alone", 2.2, 1.6,
			ratio(of.service(in512), of(in512, kindEcho), serviceCost)),
		atMost("tokens and metrics: the service's CPU for a check at 512, against without", 1.03, 1,
			ratio(of(inGuarded, kindGuarded), of(inGuarded, kindBare), serviceCost)),
		atMost("a lone check over HTTP, p50, against the textbook called directly", 1.2, 0.95,
			ratio(of(inLone, kindLone), of(inLone, kindTextbook), medianTime)),
		atMost("a lone check of user and address over HTTP, p50, against one of one bucket", 1.4, 1.2,
			ratio(of(inPairLone, kindLone), of(inLone, kindLone), medianTime)),
		atLeast("user and address, throughput against one bucket, 64 connections", 0.75, 0.95,
			faster(of.service(inPair64), of.service(in64))),
		atLeast("the same, 512 connections", 0.75, 0.95, faster(of.service(inPair512), of.service(in512))),
		atLeast("user and address at 64, throughput against envoyproxy/ratelimit without persistence asked for the same pair", 0.6, 1,
			faster(of.service(inPair64), of(inPair64, kindEnvoy))),
	}
}

// settingTargets are about zones with special settings or much data, against an
// ordinary zone measured in the same turn.
func settingTargets(of resultsOf, o options) []target {
	ordinary := of.service(inHistory)
	return []target{
		atMost("a zone with "+grouped(o.overrides)+" overrides, half of the buckets have one, time of a check against none", 1.15, 1.05,
			dearer(ordinary, of.service(inOverrides))),
		atMost("every tenth bucket locked out, time of a check against none", 1.15, 1, dearer(ordinary, of.service(inLockouts))),
		atLeast("new buckets only, throughput against known ones, 64 connections", 0.8, 0.9, faster(of.service(inNew), ordinary)),
		atMost("rate 10,000 with 5,000 txns in the window, time of a check against rate 5", 4, 2,
			dearer(of.service(inFew), of.service(inFull))),
		atMost("a history of "+grouped(o.history)+" txns, "+byDay+", time of a check against none", 1.1, 1,
			dearer(ordinary, of(inHistory, kindHistory))),
		atMost("the same without partitions", 1.5, 1.2, dearer(ordinary, of(inHistory, kindUnpartitioned))),
	}
}

// neighbourTargets are about checks beside those of a hot or held bucket, or of large
// calls.
func neighbourTargets(of resultsOf) []target {
	return []target{
		atMost("others' p99 while one bucket is flooded, against without", 1.5, 1.2,
			ratio(of.service(inFlood), of.service(inHistory), longTime)),
		atLeast("one hot bucket, throughput against the textbook's", 20, 30, faster(of.service(inHot), of(inHot, kindTextbook))),
		atLeast("others' throughput while a foreign session holds one bucket", 0.8, 1, faster(of.service(inHeld), of.service(inEight))),
		atLeast("lone checks' throughput beside 40 callers of full-size /v1/checks", 0.3, 0.5,
			faster(of.service(inBulk), of.service(inEight))),
	}
}

// bound is what a contender reaches that does only a part of a limiter's work. It tells how much of
// a target is left to gain.
type bound struct {
	what  string
	found spread
}

// bounds returns what bounds a target, as measured on an engine.
func (m *measured) bounds(engine localdb.Engine) []bound {
	of := func(scenario, contender string) []result { return m.of(scenario, contender, engine) }
	textbook := of(inLone, kindTextbook)
	return []bound{
		{
			"a lone check, p50: locking and recording behind Echo, against the textbook called directly",
			ratio(of(inLone, kindLockingBehind), textbook, medianTime),
		},
		{
			"the same: the textbook behind Echo",
			ratio(of(inLone, kindTextbookBehind), textbook, medianTime),
		},
		{
			"one hot bucket, throughput: locking and then recording behind Echo, against the textbook",
			faster(of(inHot, kindLockingFirst), of(inHot, kindTextbook)),
		},
		{
			"user and address, throughput against one bucket, 64 connections: recording behind Echo",
			faster(of(inPair64, kindRecordingBehind), of(in64, kindRecordingBehind)),
		},
		{
			"user and address, throughput against one bucket, 512 connections: recording behind Echo",
			faster(of(inPair512, kindRecordingBehind), of(in512, kindRecordingBehind)),
		},
		{
			"the same: envoyproxy/ratelimit, Redis without persistence",
			faster(of(inPair512, kindEnvoy), of(in512, kindEnvoy)),
		},
	}
}

func (m *measured) memoryTargets(engine localdb.Engine) []target {
	var list []target
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

// crowd is a number of connections at which the service's memory is read, and the most
// that it may hold then, in MiB.
type crowd struct {
	connections int
	floor       float64
}

func crowds() []crowd { return []crowd{{500, 60}, {2000, 100}} }

func mebibytes(n int64) float64 { return float64(n) / (1 << 20) }
