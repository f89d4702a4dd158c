package servicetest

import (
	"testing"
	"time"

	"velocityd/service"
)

func modeClaims() map[string]claim {
	return map[string]claim{
		"ShadowDecidesAndRecordsButNeverBlocks": script(`
			zone 1 rate=2 mode=shadow
			check 1/alice -> pass v=1 left=1 counted
			check 1/alice -> pass v=2 left=0 counted
			2x check 1/alice -> would v=2 left=0 wait=0s counted=no
			check 1/alice as=let -> would
			report let success
			zone 1 rate=2 // at the next check it binds, and the attempts in the shadow count
			check 1/alice -> block wait=1h-1m counted=no
		`),
		"ShadowLocksAsIfEnforced": script(`
			zone 1 rate=1 window=1m lockout=1h mode=shadow
			check 1/alice -> pass
			check 1/alice -> would
			age 1/alice 10m
			check 1/alice -> would v=0
			peek 1/alice -> locked until=50m-1m
			deny 1/bob
			check 1/bob -> would wait=0s counted=no
		`),
		"OffRecordsAndCountsNothing": script(`
			zone 1 rate=1 window=1m lockout=1h
			check 1/alice -> pass
			check 1/alice -> block // full and locked
			deny 1/bob
			limit 1/carol 7 1h
			edit 1 mode=off
			check 1/carol -> pass rate=1 window=1m // overrides are ignored
			3x check 1/alice -> pass unmetered v=0 retry=0s counted=no
			3x check 1/bob -> pass unmetered v=0 retry=0s counted=no
			check 1/new -> pass v=0
			and 1/new -> pass v=0
			and 1/new -> pass v=0
			check 1/bob as=let -> pass
			report let success
			edit 1 mode=enforce
			check 1/new -> pass v=1
			check 1/alice -> block wait=1h-1m
			check 1/bob -> block
		`),
		"OnlyEnforcedBucketsOfACheckBlock": script(`
			zone 1 rate=1
			zone 2 rate=1 mode=shadow
			zone 3 rate=1 mode=off
			check 1/full
			check 2/full
			check 3/full
			check 1/a 2/a 3/a -> pass room counted | room counted | room counted=no
			check 1/b 2/full 3/b -> would room counted | full retry=0s counted=no | room counted=no
			check 1/full 2/c 3/c -> block full retry=1h-1m counted=no | elsewhere counted=no | elsewhere counted=no
			check 1/full 2/full 3/d -> block full counted=no | full retry=0s counted=no | elsewhere counted=no
			check 1/e 2/e 3/full -> pass room counted | room counted | room counted=no
		`),
		"ShadowUnderContention": shadowUnderContention,
	}
}

func shadowUnderContention(t *testing.T, b subject) {
	const callers, rate = 100, 7
	b.set(t, service.Zone{ID: 1, Rate: rate, Window: time.Hour, Mode: service.ModeShadow})
	would := 0
	for _, d := range b.together(t, callers, func(int) service.Check { return one(1, "hot") }) {
		if d.Blocked {
			t.Errorf("a shadow blocked: %+v", d)
		}
		if d.WouldBlock {
			would++
		}
	}
	if _, counted := b.counted(t, at(1, "hot")); would != callers-rate || counted != rate {
		t.Errorf("%d would have been blocked and %d counted, want %d and %d", would, counted, callers-rate, rate)
	}
}
