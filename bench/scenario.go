package main

import (
	"context"
	"fmt"

	"velocityd/bench/round"
)

// scenario is one kind of traffic.
type scenario struct {
	id         string
	title      string
	callers    int
	contenders []string // kinds of contenders
	// rounds is how often a turn asks the contenders, one after the other, because they differ
	// by little; 0 means once.
	rounds int
	draws  func(seed uint64) []round.Draw
	// admits is how many checks must be allowed, if that is known: the rate of the only
	// bucket, at its first use. 0 means that it is not known.
	admits int64
	// beside is other traffic at the same time, or nil. The report is about the callers
	// that are not part of it.
	beside *beside
}

// beside is traffic that a scenario's callers may suffer from. It begins before
// them and ends after them.
type beside struct {
	title    string
	protocol string
	callers  int
	checks   int     // in one call
	every    float64 // seconds between two questions of a caller; 0 means no pause
	draws    func(seed uint64) []round.Draw
	admits   int64 // as in scenario
	// yields is true if the service may refuse these callers for want of capacity.
	yields bool
	// hold makes a foreign session take locks until release; nil means no locks.
	hold func(context.Context, *database) (release func() error, err error)
}

// order returns the order of these callers. main is that of the scenario's callers.
func (b *beside) order(main round.Order) round.Order {
	o := main
	o.Callers, o.Checks, o.Every, o.Draws = b.callers, b.checks, b.every, b.draws(main.Seed)
	o.Seconds += 2 * besideLead.Seconds()
	if b.protocol != "" {
		o.Protocol = b.protocol
	}
	return o
}

// besides returns the traffic beside, or an empty one if there is none.
func (sc scenario) besides() beside {
	if sc.beside == nil {
		return beside{draws: func(uint64) []round.Draw { return nil }}
	}
	return *sc.beside
}

// The ids of the scenarios.
const (
	in64        = "64"
	inPair64    = "pair-64"
	in512       = "512"
	inRecording = "recording"
	inPair512   = "pair-512"
	inGuarded   = "guarded"
	inLone      = "lone"
	inPairLone  = "pair-lone"
	inHot       = "hot"
	inHistory   = "history"
	inNew       = "new"
	inOverrides = "overrides"
	inLockouts  = "lockouts"
	inFlood     = "flood"
	inFew       = "few"
	inFull      = "5000-in-window"
	inEight     = "8"
	inHeld      = "held"
	inBulk      = "bulk"
)

// smokeScenarios are those of bench -smoke, which compares velocityd with the textbook.
const smokeScenarios = in64 + "," + in512 + "," + inRecording + "," + inLone + "," + inPairLone + "," + inHot + "," + inPair64

// scenarios returns all kinds of traffic, in the order of a turn. Those that are compared
// with each other are neighbours.
func scenarios(overrides int) []scenario {
	known := func(zone int, prefix string, of int) func(uint64) []round.Draw {
		return func(uint64) []round.Draw { return []round.Draw{zoneOf(zone).draw(prefix, of)} }
	}
	users := known(zoneUser, "user-", buckets)
	pair := func(uint64) []round.Draw {
		address := zoneOf(zoneAddress).draw("address-", buckets)
		address.Hot = 0.05
		return []round.Draw{zoneOf(zoneUser).draw("user-", buckets), address}
	}
	hot := func(seed uint64) []round.Draw {
		return []round.Draw{zoneOf(zoneHot).draw(fmt.Sprintf("hot-%d-", seed), 1)}
	}
	ours := []string{kindService}
	lone := []string{kindTextbook, kindTextbookBehind, kindProcedure, kindLone, kindLockingBehind, kindEcho, kindEnvoy}
	web := []string{kindService, kindEcho, kindEnvoy, kindEnvoyAOF, kindRate, kindRateAOF}
	all := append([]string{kindTextbook, kindProcedure, kindFlexible}, web...)
	pairs := "user and address in one check, 5 % of them from one address, "
	return []scenario{
		{id: in64, title: "64 callers, 100,000 buckets", callers: 64, contenders: append(all, kindRecordingBehind), draws: users},
		{id: inPair64, title: pairs + "64 callers", callers: 64, contenders: []string{kindService, kindRecordingBehind, kindEnvoy}, draws: pair},
		{id: in512, title: "512 callers, 100,000 buckets", callers: 512, contenders: append(web, kindRecordingBehind), draws: users},
		{id: inRecording, title: "recording alone, as the service records at 512 callers", contenders: []string{kindRecording}, draws: known(zoneRecorded, "user-", buckets)},
		{id: inPair512, title: pairs + "512 callers", callers: 512, contenders: []string{kindService, kindRecordingBehind, kindEnvoy}, draws: pair},
		{id: inGuarded, title: "512 callers, without and with tokens and metrics", callers: 512, contenders: []string{kindBare, kindGuarded}, rounds: 3, draws: users},
		{id: inLone, title: "a lone caller, 100,000 buckets", callers: 1, contenders: lone, draws: users},
		{id: inPairLone, title: pairs + "a lone caller", callers: 1, contenders: []string{kindLone}, draws: pair},
		{id: inHot, title: "one hot bucket, 64 callers", callers: 64, contenders: []string{kindTextbook, kindService, kindLockingFirst, kindEnvoy, kindRate}, draws: hot, admits: hotRate},
		{id: inHistory, title: "with a history, 64 callers, 100,000 buckets", callers: 64, contenders: []string{kindService, kindHistory, kindUnpartitioned}, draws: users},
		{id: inNew, title: "new buckets only, 64 callers", callers: 64, contenders: ours, draws: known(zoneUser, "new-", 0)},
		{id: inOverrides, title: fmt.Sprintf("a zone with %s overrides, half of the buckets have one, 64 callers", grouped(overrides)), callers: 64, contenders: ours, draws: known(zoneExcepted, "user-", buckets)},
		{id: inLockouts, title: "every tenth bucket locked out, 64 callers, 100,000 buckets", callers: 64, contenders: ours, draws: known(zoneLocked, "user-", buckets)},
		{id: inFlood, title: "64 callers over 100,000 buckets, while 64 others flood one bucket", callers: 64, contenders: ours, draws: users, beside: &beside{title: "the flood", callers: 64, draws: hot, admits: hotRate}},
		{id: inFew, title: "rate 5 in a day, 64 callers, 100 full buckets", callers: 64, contenders: ours, draws: known(zoneFew, "held-", heldBuckets)},
		{id: inFull, title: "rate 10,000 in a day, 64 callers, 100 buckets with 5,000 txns each in the window", callers: 64, contenders: ours, draws: known(zoneHeld, "held-", heldBuckets)},
		{id: inEight, title: "8 callers, 100,000 buckets", callers: 8, contenders: ours, draws: users},
		{id: inHeld, title: "8 callers over 100,000 buckets, while a foreign session holds another one, which is asked 5 times a second", callers: 8, contenders: ours, draws: users, beside: held()},
		{id: inBulk, title: "8 callers over 100,000 buckets, beside 40 callers of POST /v1/checks with 1,000 checks of 8 buckets each", callers: 8, contenders: ours, draws: users, beside: bulk()},
	}
}

// held asks for a bucket that a foreign session holds, at a pace that does not depend on
// the answers.
func held() *beside {
	const callers, perSecond = 30, 5
	return &beside{
		title: "the bucket held", callers: callers, every: callers / perSecond, yields: true,
		draws: func(uint64) []round.Draw { return []round.Draw{zoneOf(zoneUser).draw(takenPrefix, 1)} },
		hold: func(ctx context.Context, d *database) (func() error, error) {
			return d.hold(ctx, zoneUser, takenPrefix+"00000")
		},
	}
}

// bulk asks for as much as one call may.
func bulk() *beside {
	return &beside{
		title: "the large calls", protocol: round.Bulk, callers: 40, checks: 1000, yields: true,
		draws: func(uint64) (list []round.Draw) {
			for i := range bulkBuckets {
				list = append(list, zoneOf(zoneAddress).draw(bulkPrefix(i), bulkKeys))
			}
			return list
		},
	}
}
