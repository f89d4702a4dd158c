package main

import "fmt"

// target is one thing that was wanted, and what was measured.
type target struct {
	what    string
	limit   float64
	atLeast bool // else at most
	unit    string
	found   spread
}

// met says whether the median keeps the limit. What was not measured is not met.
func (t target) met() bool {
	switch {
	case t.found == spread{}:
		return false
	case t.atLeast:
		return t.found.median >= t.limit
	default:
		return t.found.median <= t.limit
	}
}

// verdict says in words whether the target is met, or by how much not.
func (t target) verdict() string {
	switch {
	case t.found == spread{}:
		return "not measured"
	case t.met():
		return "met"
	case t.atLeast:
		return fmt.Sprintf("**missed** by %.0f %%", 100*(1-t.found.median/t.limit))
	default:
		return fmt.Sprintf("**missed** by %.0f %%", 100*(t.found.median/t.limit-1))
	}
}

func (t target) wanted() string {
	sign := "≤"
	if t.atLeast {
		sign = "≥"
	}
	return fmt.Sprintf("%s %s%s", sign, decimal(t.limit), t.unit)
}

// targets holds what was measured against what was wanted.
func (m *measured) targets() []target {
	faster := func(what string, limit float64, scenario, otherScenario, other string) target {
		return target{what: what, limit: limit, atLeast: true, unit: " ×", found: ratio(m.of(scenario, idService), m.of(otherScenario, other), perSecond)}
	}
	// How much more time a check takes: what it was, divided by what it is.
	dearer := func(what string, limit float64, was, is []result) target {
		return target{what: what, limit: limit, unit: " ×", found: ratio(was, is, perSecond)}
	}
	ordinary := m.of(inHistory, idService)
	return []target{
		faster("512 connections over HTTP, throughput against the textbook at 64 callers", 9, in512, in64, idTextbook),
		faster("the same against envoyproxy/ratelimit, Redis without persistence, at 512", 1.3, in512, in512, idEnvoy),
		faster("64 connections over HTTP, throughput against the textbook at 64 callers", 5.5, in64, in64, idTextbook),
		faster("the same against envoyproxy/ratelimit, Redis without persistence, at 64", 1, in64, in64, idEnvoy),
		{
			what: "64 connections over HTTP, p99 against its own p50", limit: 2, unit: " ×",
			found: spreadOf(values(m.of(in64, idService), func(r result) float64 { return float64(r.P99) / max(float64(r.P50), 1) })),
		},
		faster("one hot bucket, throughput against the textbook's", 15, inHot, inHot, idTextbook),
		{
			what: "a lone check over HTTP, p50 against the textbook's, called directly", limit: 0.75, unit: " ×",
			found: ratio(m.of(inLone, idService), m.of(inLone, idTextbook), medianTime),
		},
		dearer(fmt.Sprintf("a history of %s txns, %s, time of a check against none", grouped(m.options.history), m.options.layout()), 1.2,
			ordinary, m.of(inHistory, idHistory)),
		dearer("rate 10,000 against rate 5, time of a check, 100,000 buckets", 1.5, ordinary, m.of(inWide, idService)),
		dearer("the same where 5,000 of the 10,000 are in the window, against full buckets of rate 5", 1.5,
			m.of(inFew, idService), m.of(inHeld, idService)),
		dearer(grouped(m.options.overrides)+" overrides, time of a check against none", 1.1, ordinary, m.of(inOverrides, idService)),
		faster("user and address in one check, throughput against one bucket, 64 connections", 0.6, inPair64, in64, idService),
		faster("the same, 512 connections", 0.6, inPair512, in512, idService),
		{
			what: "64 callers' p99 while as many flood one bucket, against without", limit: 1.5, unit: " ×",
			found: ratio(m.of(inFlood, idService), ordinary, func(r result) float64 { return float64(r.P99) }),
		},
		{
			what:  fmt.Sprintf("the service's memory at %s connections", grouped(m.options.memory)),
			limit: 100, unit: " MiB", found: spreadOf([]float64{mebibytes(m.resident)}),
		},
	}
}

func mebibytes(n int64) float64 { return float64(n) / (1 << 20) }
