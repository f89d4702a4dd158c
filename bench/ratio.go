package main

// comparison is a ratio that a reader looks for first: of a figure of one kind of contender in one scenario, by that of
// another. It is told in words.
type comparison struct {
	what             string
	scenario, kind   string
	against, another string
	of               func(result) float64
}

// found returns the ratio on an engine.
func (c comparison) found(m *measured, e *engine) spread {
	return ratio(m.of(c.scenario, c.kind, e), m.of(c.against, c.another, e), c.of)
}

// comparisons returns the ratios in the order of the report.
func (m *measured) comparisons() []comparison {
	const ours = kindService
	coalesces := "the service's CPU for a check at 512, by a client that coalesces, against one that does not"
	old := "a history of " + grouped(m.options.history) + " txns, " + byDay + ", time of a check against none"
	excepted := "a zone with " + grouped(m.options.overrides) + " overrides, time of a check against none"
	return []comparison{
		{
			"512 connections, throughput against envoyproxy/ratelimit, Redis without persistence", in512, ours, in512, kindEnvoy,
			perSecond,
		},
		{"the same, Redis with every command on disk", in512, ours, in512, kindEnvoyAOF, perSecond},
		{"64 connections, against envoyproxy/ratelimit without persistence", in64, ours, in64, kindEnvoy, perSecond},
		{"the same, with every command on disk", in64, ours, in64, kindEnvoyAOF, perSecond},
		{"64 connections, against rate-limiter-flexible on the same engine", in64, ours, in64, kindFlexible, perSecond},
		{
			"512 callers over gRPC, throughput against envoyproxy/ratelimit over gRPC, Redis without persistence",
			in512, kindDoor, in512, kindRPC, perSecond,
		},
		{"the same, Redis with every command on disk", in512, kindDoor, in512, kindRPCAOF, perSecond},
		{
			"64 callers over gRPC, against envoyproxy/ratelimit over gRPC, without persistence", in64, kindDoor, in64, kindRPC,
			perSecond,
		},
		{"the same, with every command on disk", in64, kindDoor, in64, kindRPCAOF, perSecond},
		{
			"the service's CPU for a check at 512 over gRPC, against envoyproxy/ratelimit over gRPC", in512, kindDoor, in512,
			kindRPC, serviceCost,
		},
		{"the same, against velocityd over HTTP", in512, kindDoor, in512, ours, serviceCost},
		{
			"the database's CPU for a check at 512, against recording alone", in512, ours, inRecording, kindRecording,
			serverCost,
		},
		{"the service's CPU for a check at 512, against Echo alone", in512, ours, in512, kindEcho, serviceCost},
		{coalesces, in512, kindCoalesced, in512, kindClient, serviceCost},
		{"the same, the client's and the service's CPU together", in512, kindCoalesced, in512, kindClient, webCost},
		{"the same, throughput", in512, kindCoalesced, in512, kindClient, perSecond},
		{
			"a lone check over HTTP, p50, against the textbook called directly", inLone, kindLone, inLone, kindTextbook,
			medianTime,
		},
		{
			"a lone check of user and address, p50, against one of one bucket", inPairLone, kindLone, inLone, kindLone,
			medianTime,
		},
		{"user and address, throughput against one bucket, 64 connections", inPair64, ours, in64, ours, perSecond},
		{"the same, 512 connections", inPair512, ours, in512, ours, perSecond},
		{
			"five limits of an account in one check, throughput against one bucket, 64 connections", inFive, ours, in64, ours,
			perSecond,
		},
		{
			"the same, against redis_rate asked for the same five, Redis without persistence", inFive, ours, inFive, kindRate,
			perSecond,
		},
		{"the same, Redis with every command on disk", inFive, ours, inFive, kindRateAOF, perSecond},
		{"one hot bucket, throughput against the textbook's", inHot, ours, inHot, kindTextbook, perSecond},
		{"new buckets only, throughput against known ones, 64 connections", inNew, ours, inHistory, ours, perSecond},
		// More time is less throughput: the compared one comes second.
		{excepted, inHistory, ours, inOverrides, ours, perSecond},
		{old, inHistory, ours, inHistory, kindHistory, perSecond},
	}
}

func mebibytes(n int64) float64 { return float64(n) / (1 << 20) }
