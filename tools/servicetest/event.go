package servicetest

import (
	"encoding/json"
	"testing"
	"time"

	"velocityd/service"
	"velocityd/tools/servicetest/steps"
)

func eventClaims() map[string]claim {
	return map[string]claim{
		"ALockoutIsToldOnceWithItsEndAndItsTxn": lockoutIsTold,
		"LockoutsOfOneCallAreToldEach": script(`
			zone 1 rate=1 window=1m lockout=1h
			zone 2 rate=100 window=1m
			check 2/x 1/alice 1/bob -> pass
			and 1/bob 1/carol id=a as=bob -> block
			and 1/alice id=b as=alice -> block
			and 1/alice -> block
			told 1/alice -> bucket.locked:alice
			told 1/bob -> bucket.locked:bob
			told 1/carol
		`),
		"WhatBeginsNoLockoutIsNotTold": script(`
			zone 1 rate=1 window=1m lockout=1h mode=shadow
			zone 2 rate=1 window=1m
			zone 3 rate=1 window=1m lockout=1h
			zone 4 rate=10 window=1m
			deny 4/denied
			3x check 1/shadow
			3x check 2/full
			3x check 4/denied 3/beside -> denied
			told 1/shadow
			told 2/full
			told 3/beside
		`),
		"AReleaseAndTheLockoutThatItEndsAreTold": script(`
			zone 1 rate=1 window=1m lockout=1h
			check 1/alice -> pass
			check 1/alice as=locking -> block
			release 1/alice
			told 1/alice -> bucket.lock_ended:locking bucket.locked:locking bucket.released
			release 1/alice
			release 1/bob
			told 1/alice -> bucket.lock_ended:locking bucket.locked:locking bucket.released bucket.released
			told 1/bob -> bucket.released
			check 1/alice -> pass
			check 1/alice as=again -> block
			told 1/alice -> bucket.lock_ended:locking bucket.locked:again bucket.locked:locking bucket.released bucket.released
		`),
		"ALockoutWhereFewBlockedAttemptsAreRecordedIsTold": script(`
			zone 1 rate=0 lockout=1m lockout_factor=1 record_blocked=1
			check 1/alice as=first -> lockout
			check 1/alice -> locked
			age 1/alice 2m
			check 1/alice as=second -> lockout
			check 1/alice -> locked
			told 1/alice -> bucket.locked:first bucket.locked:second
		`),
	}
}

func lockoutIsTold(t *testing.T, b subject) {
	locking := steps.Run(t, b, `
		zone 1 rate=1 window=1m lockout=1h
		check 1/o'brien"x"ä -> pass
		told 1/o'brien"x"ä
		check 1/o'brien"x"ä as=locking -> lockout
		check 1/o'brien"x"ä -> locked
		told 1/o'brien"x"ä -> bucket.locked:locking
	`)["locking"]
	e := b.EventsOf(t, locking.Verdicts[0].Bucket)[0]
	var data struct {
		Until  time.Time      `json:"locked_until"`
		Reason service.Reason `json:"reason"`
	}
	until := locking.CheckedAt.Add(time.Hour)
	if err := json.Unmarshal(e.Data, &data); err != nil || !data.Until.Equal(until) ||
		data.Reason != service.ReasonLockout ||
		!e.At.Equal(locking.CheckedAt.Time) {
		t.Errorf("the event of %v says %s, %v; the check was at %v", e.At.Time, e.Data, err, locking.CheckedAt.Time)
	}
	steps.Run(t, b, `
		age 1/o'brien"x"ä 2h
		check 1/o'brien"x"ä -> pass
		check 1/o'brien"x"ä as=again -> lockout
		told 1/o'brien"x"ä -> bucket.locked bucket.locked:again // begun before anybody noted the end of the first one
	`)
}
