package servicetest

import (
	"strings"
	"testing"
	"time"

	"velocityd/service"
	"velocityd/tools/servicetest/steps"
)

func concurrentClaims() map[string]claim {
	return map[string]claim{
		"NoMoreAttemptsAreUnderWayThanConcurrent": noMoreUnderWay,
		"AnAttemptIsUnderWayForItsReserveTTL": script(`
			zone 1 rate=50 reserve_ttl=10m concurrent=1
			check 1/alice -> pass
			age 1/alice 7m
			check 1/alice -> block concurrent left=0 wait=3m-1m
			age 1/alice 3m
			check 1/alice -> pass v=2
		`),
		"AttemptsUnderWayAreBoundedUnderContention": boundedUnderContention,
		"TooManyUnderWayBeginNoLockout": script(`
			zone 1 rate=2 lockout=30m reserve_ttl=10m concurrent=1
			check 1/alice as=first -> pass
			check 1/alice -> block concurrent left=0 wait=10m-1m
			report first failure
			check 1/alice -> room
			check 1/alice -> block lockout // full and too many under way: that the bucket is full comes first
			check 1/alice -> block locked
			zone 2 rate=2 reserve_ttl=10m concurrent=1
			check 2/alice as=full -> pass
			report full failure
			check 2/alice -> pass
			check 2/alice -> block full wait=1h-1m
		`),
		"ConcurrentBindsTheAttemptsThatALimitBinds": script(`
			zone 1 rate=50 reserve_ttl=10m concurrent=1
			allow 1/friend
			limit 1/limited 9 2h
			2x check 1/friend -> room
			check 1/limited -> pass
			check 1/limited -> block concurrent left=0 wait=10m-1m
			zone 2 rate=9
			check 2/bob 1/limited -> elsewhere | concurrent
			count 2/bob -> 0 of 1
			zone 3 rate=50 reserve_ttl=10m concurrent=1 mode=shadow
			check 3/alice -> pass
			check 3/alice -> would concurrent
			zone 4 rate=50 reserve_ttl=10m concurrent=1 mode=off
			2x check 4/alice -> room
		`),
		"ConcurrentHoldsFromTheNextCheckOn": script(`
			zone 1 rate=50 reserve_ttl=10m
			3x check 1/alice -> pass
			edit 1 concurrent=3
			check 1/alice -> block
			edit 1 concurrent=4
			check 1/alice -> pass
			check 1/alice -> block
			edit 1 concurrent=2
			check 1/alice -> block
			edit 1 concurrent=0
			2x check 1/alice -> pass
		`),
		"WhatIsReleasedIsUnderWayNoMore": script(`
			zone 1 rate=50 reserve_ttl=10m concurrent=1 reset_on_success=true
			check 1/alice -> pass
			release 1/alice
			check 1/alice as=first -> pass
			edit 1 concurrent=2
			check 1/alice -> pass
			check 1/alice -> block concurrent left=0 wait=10m-1m
			report first success // resets the bucket
			2x check 1/alice -> room
			check 1/alice -> block concurrent left=0 wait=10m-1m
		`),
		"TheAttemptsOfABatchAreUnderWayForThoseBehindThem": script(`
			zone 1 rate=50 reserve_ttl=10m concurrent=2
			zone 2 rate=9
			check 1/alice -> room
			and 2/alice -> room
			and 1/alice -> room
			and 1/bob -> room
			and 1/alice -> concurrent
			and 2/alice -> room
		`),
	}
}

func noMoreUnderWay(t *testing.T, b subject) {
	for zone, counts := range map[string]string{"1": "attempts", "2": "failures"} {
		steps.Run(t, b, strings.NewReplacer("ZONE", zone, "COUNTS", counts).Replace(`
			zone ZONE rate=50 reserve_ttl=10m concurrent=2 counts=COUNTS
			check ZONE/alice as=first -> pass
			check ZONE/alice as=second -> pass
			2x check ZONE/alice -> block concurrent left=0 wait=10m-1m // a blocked attempt is not under way
			peek ZONE/alice -> concurrent v=2 retry=10m-1m
			report first failure
			check ZONE/alice -> pass
			check ZONE/alice -> block concurrent left=0 wait=10m-1m
			report second success
			check ZONE/alice -> pass
			check ZONE/alice -> block concurrent left=0 wait=10m-1m
		`))
	}
}

func boundedUnderContention(t *testing.T, b subject) {
	const most = 3
	b.set(t, service.Zone{ID: 1, Rate: 50, Window: time.Hour, ReserveTTL: 10 * time.Minute, Concurrent: most})
	decisions := b.together(t, 40, func(int) service.Check { return one(1, "alice") })
	if n := allowedOf(decisions); n != most {
		t.Errorf("%d attempts at once were allowed, want %d", n, most)
	}
	for _, d := range decisions {
		if !d.Blocked {
			b.wantReport(t, d.TxnID(), failure, nil)
		}
	}
	if n := allowedOf(b.together(t, 40, func(int) service.Check { return one(1, "alice") })); n != most {
		t.Errorf("after all outcomes %d attempts at once were allowed, want %d", n, most)
	}
}
