package main

import (
	"fmt"

	"velocityd/bench/round"
)

// scenario is one kind of traffic.
type scenario struct {
	id      string
	title   string
	callers int
	who     []string
	draws   func(seed uint64) []round.Draw
	// admits is how many checks must be let through, if that is known: the rate of
	// the only bucket, at its first use. 0 means that it is not known.
	admits int64
	// flood is what as many other callers ask for at the same time; nil for none.
	// What is reported is the callers who are no part of it.
	flood func(seed uint64) []round.Draw
}

// The ids of the scenarios.
const (
	inLone      = "lone"
	in64        = "64"
	in512       = "512"
	inHot       = "hot"
	inPair64    = "pair-64"
	inPair512   = "pair-512"
	inNew       = "new"
	inHistory   = "history"
	inWide      = "rate-10000"
	inOverrides = "overrides"
	inFew       = "few"
	inHeld      = "held"
	inFlood     = "flood"
)

// scenarios are all kinds of traffic, in the order in which a turn goes through
// them: what is compared with one another stands side by side.
func scenarios(overrides int) []scenario {
	user := func(id int) func(uint64) []round.Draw {
		return func(uint64) []round.Draw { return []round.Draw{zoneOf(id).draw("user-", buckets)} }
	}
	held := func(id int) func(uint64) []round.Draw {
		return func(uint64) []round.Draw { return []round.Draw{zoneOf(id).draw("held-", heldBuckets)} }
	}
	pair := func(uint64) []round.Draw {
		address := zoneOf(zoneAddress).draw("address-", buckets)
		address.Hot = 0.05
		return []round.Draw{zoneOf(zoneUser).draw("user-", buckets), address}
	}
	hot := func(seed uint64) []round.Draw {
		return []round.Draw{zoneOf(zoneHot).draw(fmt.Sprintf("hot-%d-", seed), 1)}
	}
	unseen := func(uint64) []round.Draw { return []round.Draw{zoneOf(zoneUser).draw("new-", 0)} }

	five := []string{idTextbook, idProcedure, idService, idEnvoy, idEnvoyAOF}
	seven := append(five[:5:5], idRate, idRateAOF)
	all := append(seven[:7:7], idFlexible)
	ours := []string{idService}
	return []scenario{
		{id: in64, title: "64 callers, 100,000 buckets", callers: 64, who: all, draws: user(zoneUser)},
		{id: in512, title: "512 callers, 100,000 buckets", callers: 512, who: seven, draws: user(zoneUser)},
		{id: inHot, title: "one hot bucket, 64 callers", callers: 64, who: all, draws: hot, admits: hotRate},
		{id: inLone, title: "a lone caller, 100,000 buckets", callers: 1, who: all, draws: user(zoneUser)},
		{id: inPair64, title: "user and address in one check, 5 % of them from one address, 64 callers", callers: 64, who: five, draws: pair},
		{id: inPair512, title: "user and address in one check, 5 % of them from one address, 512 callers", callers: 512, who: five, draws: pair},
		{id: inNew, title: "new buckets only, 64 callers", callers: 64, who: five, draws: unseen},
		{id: inHistory, title: "with a history, 64 callers, 100,000 buckets", callers: 64, who: []string{idService, idHistory}, draws: user(zoneUser)},
		{
			id: inFlood, title: "64 callers over 100,000 buckets, while 64 others flood one bucket", callers: 64,
			who: []string{idTextbook, idService}, draws: user(zoneUser), flood: hot,
		},
		{id: inWide, title: "rate 10,000 in a minute, 64 callers, 100,000 buckets", callers: 64, who: ours, draws: user(zoneWide)},
		{id: inOverrides, title: fmt.Sprintf("a zone with %s overrides, 64 callers, 100,000 buckets", grouped(overrides)), callers: 64, who: ours, draws: user(zoneExcepted)},
		{id: inFew, title: "rate 5 in a day, 64 callers, 100 full buckets", callers: 64, who: []string{idTextbook, idService}, draws: held(zoneFew)},
		{id: inHeld, title: "rate 10,000 in a day, 64 callers, 100 buckets with 5,000 txns each in the window", callers: 64, who: []string{idTextbook, idService}, draws: held(zoneHeld)},
	}
}
