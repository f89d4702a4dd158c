package servicetest

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"velocityd/service"
)

func batchClaims() map[string]claim {
	return map[string]claim{
		"UnknownZoneIsRefusedAlone": script(`
			zone 1 rate=5
			check 404/alice -> unknown
			check 1/bob -> pass
			and 1/alice 404/alice -> unknown
			and 404/carol -> unknown
			and 1/bob -> pass left=3
			count 1/alice -> 0 of 0
			count 404/alice -> 0 of 0
		`),
		"BatchIsDecidedInOrder": script(`
			zone 1 rate=3
			zone 2 rate=2
			check 1/user 2/where -> pass left=2
			and 1/user 2/where -> pass left=1
			and 1/user 2/where -> block left=1
			and 1/user -> pass left=0
			and 1/user -> block left=0
			and 2/where -> block left=0
			count 1/user -> 3 of 5
			count 2/where -> 2 of 4
		`),
		"BatchMixesAllowedDeniedAndBad": batchMixesAllowedDeniedAndBad,
		"LargeBatchIsAnsweredInFull":    largeBatchIsAnsweredInFull,
	}
}

func batchMixesAllowedDeniedAndBad(t *testing.T, b subject) {
	b.zone(t, 1, 1, time.Hour)
	decisions := b.all(t,
		one(1, "alice"), one(1, "alice"), one(1, ""), one(7, "bob"), one(-1, "x"),
		service.Check{}, service.Check{Buckets: []service.Bucket{at(1, "d"), at(1, "")}}, one(1, "bob"))
	for i, want := range []error{
		nil, nil, service.ErrInvalid, service.ErrNotFound,
		service.ErrInvalid, service.ErrInvalid, service.ErrInvalid, nil,
	} {
		if !errors.Is(decisions[i].Err, want) {
			t.Errorf("check %d: err = %v, want %v", i, decisions[i].Err, want)
		}
	}
	if decisions[0].Blocked || !decisions[1].Blocked || decisions[7].Blocked {
		t.Errorf("allowed, denied, allowed expected, got %+v", decisions)
	}
	if recorded, _ := b.counted(t, at(1, "d")); recorded != 0 {
		t.Errorf("a check with a bad bucket recorded %d txns", recorded)
	}
}

func largeBatchIsAnsweredInFull(t *testing.T, b subject) {
	b.zone(t, 1, 10, time.Hour)
	checks := make([]service.Check, service.MaxChecks)
	for i := range checks {
		checks[i] = one(1, fmt.Sprintf("key-%03d", i%90)) // 90 keys, each 11 or 12 times
	}
	for i, d := range b.all(t, checks...) {
		if d.Verdicts[0].Bucket != checks[i].Buckets[0] {
			t.Fatalf("decision %d answers %+v", i, d.Verdicts[0].Bucket)
		}
		if d.Blocked != (i >= 900) {
			t.Errorf("check %d: blocked = %v", i, d.Blocked)
		}
	}
}
