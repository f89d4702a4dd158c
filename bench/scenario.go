package main

import (
	"fmt"
	"slices"

	"velocityd/bench/workload"
)

// scenario is one kind of traffic.
type scenario struct {
	id         string
	title      string
	callers    int
	contenders []string // kinds of contenders
	draws      func(seed uint64) []workload.Draw
	// admits is the number of checks that must be allowed: the rate of the only bucket, at its first use. 0
	// means that it is not known.
	admits int64
}

// The ids of the scenarios.
const (
	in64        = "64"
	inPair64    = "pair-64"
	in512       = "512"
	inRecording = "recording"
	inPair512   = "pair-512"
	inLone      = "lone"
	inPairLone  = "pair-lone"
	inHot       = "hot"
	inHistory   = "history"
	inNew       = "new"
	inOverrides = "overrides"
	inFive      = "five"
)

// smokeScenarios are those of bench -smoke, which compares velocityd with the textbook.
const smokeScenarios = in64 + "," + in512 + "," + inRecording + "," + inLone + "," + inPairLone + "," + inHot + "," +
	inPair64

// scenarios returns all kinds of traffic, in the order of a turn. Those that are compared
// with each other are neighbours.
func scenarios(overrides int) []scenario {
	known := func(zone int, prefix string, of int) func(uint64) []workload.Draw {
		return func(uint64) []workload.Draw { return []workload.Draw{zoneOf(zone).draw(prefix, of)} }
	}
	users := known(zoneUser, "user-", buckets)
	pair := func(uint64) []workload.Draw {
		both := usersAndAddresses()
		both[1].Hot = 0.05
		return both
	}
	hot := func(seed uint64) []workload.Draw {
		return []workload.Draw{zoneOf(zoneHot).draw(fmt.Sprintf("hot-%d-", seed), 1)}
	}
	five := func(uint64) []workload.Draw {
		var draws []workload.Draw
		for i, z := range quotas() {
			draw := z.draw("account-", accounts)
			draw.Same = i > 0
			draws = append(draws, draw)
		}
		return draws
	}
	ours := []string{kindService}
	web := []string{kindService, kindEcho, kindEnvoy, kindEnvoyAOF, kindRate, kindRateAOF}
	rpc := []string{kindDoor, kindRPC, kindRPCAOF}
	all := slices.Concat([]string{kindTextbook, kindProcedure, kindFlexible}, web, rpc)
	crowd := slices.Concat(web, rpc, []string{kindClient, kindCoalesced})
	pairs := "user and address in one check, 5 % of them from one address, "
	return []scenario{
		{id: in64, title: "64 callers, 100,000 buckets", callers: 64, contenders: all, draws: users},
		{id: inPair64, title: pairs + "64 callers", callers: 64, contenders: []string{kindService, kindEnvoy}, draws: pair},
		{
			id: inFive,
			title: "five limits of an account in one check (by second, minute, hour, day and month), 10,000 accounts, 64 " +
				"callers",
			callers: 64, contenders: []string{kindService, kindEnvoy, kindRate, kindRateAOF}, draws: five,
		},
		{id: in512, title: "512 callers, 100,000 buckets", callers: 512, contenders: crowd, draws: users},
		{
			id: inRecording, title: "recording alone, as the service records at 512 callers",
			contenders: []string{kindRecording}, draws: known(zoneRecorded, "user-", buckets),
		},
		{
			id: inPair512, title: pairs + "512 callers", callers: 512, contenders: []string{kindService, kindEnvoy},
			draws: pair,
		},
		{
			id: inLone, title: "a lone caller, 100,000 buckets", callers: 1,
			contenders: []string{kindTextbook, kindProcedure, kindLone, kindEcho, kindEnvoy}, draws: users,
		},
		{id: inPairLone, title: pairs + "a lone caller", callers: 1, contenders: []string{kindLone}, draws: pair},
		{
			id: inHot, title: "one hot bucket, 64 callers", callers: 64,
			contenders: []string{kindTextbook, kindService, kindEnvoy, kindRate}, draws: hot, admits: hotRate,
		},
		{
			id: inHistory, title: "with a history, 64 callers, 100,000 buckets", callers: 64,
			contenders: []string{kindService, kindHistory}, draws: users,
		},
		{id: inNew, title: "new buckets only, 64 callers", callers: 64, contenders: ours, draws: known(zoneUser, "new-", 0)},
		{
			id:      inOverrides,
			title:   fmt.Sprintf("a zone with %s overrides, half of the buckets have one, 64 callers", grouped(overrides)),
			callers: 64, contenders: ours, draws: known(zoneExcepted, "user-", buckets),
		},
	}
}
