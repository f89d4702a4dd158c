package main

import "velocityd/db/localdb"

// comparison is a ratio between two results of the same turn, in words.
type comparison struct {
	what  string
	found spread
}

// comparisons returns the ratios that a reader looks for first, as measured on an engine.
func (m *measured) comparisons(engine localdb.Engine) []comparison {
	of := func(scenario, contender string) []result { return m.of(scenario, contender, engine) }
	service := func(scenario string) []result { return of(scenario, kindService) }
	faster := func(one, other []result) spread { return ratio(one, other, perSecond) }
	// dearer is the cost of a check now as a multiple of the cost before.
	dearer := func(before, now []result) spread { return ratio(before, now, perSecond) }
	ordinary := service(inHistory)
	return []comparison{
		{"512 connections, throughput against envoyproxy/ratelimit, Redis without persistence", faster(service(in512), of(in512, kindEnvoy))},
		{"the same, Redis with every command on disk", faster(service(in512), of(in512, kindEnvoyAOF))},
		{"64 connections, against envoyproxy/ratelimit without persistence", faster(service(in64), of(in64, kindEnvoy))},
		{"the same, with every command on disk", faster(service(in64), of(in64, kindEnvoyAOF))},
		{"64 connections, against rate-limiter-flexible on the same engine", faster(service(in64), of(in64, kindFlexible))},
		{
			"512 callers over gRPC, throughput against envoyproxy/ratelimit over gRPC, Redis without persistence",
			faster(of(in512, kindDoor), of(in512, kindRPC)),
		},
		{"the same, Redis with every command on disk", faster(of(in512, kindDoor), of(in512, kindRPCAOF))},
		{"64 callers over gRPC, against envoyproxy/ratelimit over gRPC, without persistence", faster(of(in64, kindDoor), of(in64, kindRPC))},
		{"the same, with every command on disk", faster(of(in64, kindDoor), of(in64, kindRPCAOF))},
		{
			"the service's CPU for a check at 512 over gRPC, against envoyproxy/ratelimit over gRPC",
			ratio(of(in512, kindDoor), of(in512, kindRPC), serviceCost),
		},
		{"the same, against velocityd over HTTP", ratio(of(in512, kindDoor), service(in512), serviceCost)},
		{"the database's CPU for a check at 512, against recording alone", ratio(service(in512), of(inRecording, kindRecording), serverCost)},
		{"the service's CPU for a check at 512, against Echo alone", ratio(service(in512), of(in512, kindEcho), serviceCost)},
		{
			"the service's CPU for a check at 512, by a client that coalesces, against one that does not",
			ratio(of(in512, kindCoalesced), of(in512, kindClient), serviceCost),
		},
		{"the same, the client's and the service's CPU together", ratio(of(in512, kindCoalesced), of(in512, kindClient), webCost)},
		{"the same, throughput", faster(of(in512, kindCoalesced), of(in512, kindClient))},
		{"a lone check over HTTP, p50, against the textbook called directly", ratio(of(inLone, kindLone), of(inLone, kindTextbook), medianTime)},
		{"a lone check of user and address, p50, against one of one bucket", ratio(of(inPairLone, kindLone), of(inLone, kindLone), medianTime)},
		{"user and address, throughput against one bucket, 64 connections", faster(service(inPair64), service(in64))},
		{"the same, 512 connections", faster(service(inPair512), service(in512))},
		{"five limits of an account in one check, throughput against one bucket, 64 connections", faster(service(inFive), service(in64))},
		{"the same, against redis_rate asked for the same five, Redis without persistence", faster(service(inFive), of(inFive, kindRate))},
		{"the same, Redis with every command on disk", faster(service(inFive), of(inFive, kindRateAOF))},
		{"one hot bucket, throughput against the textbook's", faster(service(inHot), of(inHot, kindTextbook))},
		{"new buckets only, throughput against known ones, 64 connections", faster(service(inNew), ordinary)},
		{"a zone with " + grouped(m.options.overrides) + " overrides, time of a check against none", dearer(ordinary, service(inOverrides))},
		{
			"a history of " + grouped(m.options.history) + " txns, " + byDay + ", time of a check against none",
			dearer(ordinary, of(inHistory, kindHistory)),
		},
	}
}

// crowds are the numbers of connections at which the service's memory is read.
func crowds() []int { return []int{500, 2000} }

func mebibytes(n int64) float64 { return float64(n) / (1 << 20) }
