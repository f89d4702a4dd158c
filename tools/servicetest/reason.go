package servicetest

import (
	"testing"

	"velocityd/tools/servicetest/steps"
)

func reasonClaims() map[string]claim { //nolint:funlen // a table of scripts
	return map[string]claim{
		"EveryVerdictAndItsTxnTellWhy": script(`
			zone 1 rate=1 window=1m lockout=1h
			check 1/alice -> room
			check 1/alice -> lockout
			2x check 1/alice -> locked
			age 1/alice 10m
			check 1/alice -> locked // with an empty window
			age 1/alice 1h
			check 1/alice -> room
			zone 2 rate=1 window=1m
			zone 3 rate=0 window=1m
			check 2/alice -> room
			check 2/alice 3/alice -> full | full
			limit 2/bob 0 1h
			check 2/bob -> full
			allow 2/alice
			check 2/alice -> room
			edit 3 mode=off
			check 3/alice -> room
		`),
		"ABucketWithRoomIsBlockedElsewhere": script(`
			zone 1 rate=9
			zone 2 rate=1
			zone 3 rate=9 mode=off
			allow 1/friend
			check 2/x -> room
			check 1/alice 2/x 3/y 1/friend -> elsewhere | full | elsewhere | elsewhere
		`),
		"FiguresAreThoseOfALimitThatDecides": script(`
			zone 1 rate=1 lockout=1h
			zone 2 rate=5
			check 1/alice -> pass
			check 1/alice -> lockout // full and locked
			allow 1/alice
			check 1/alice 2/alice id=allowed as=allowed -> pass unmetered v=0 left=0 rate=1 window=1h | unmetered=no v=1
			check 1/alice 2/alice id=allowed same=allowed
			check 1/alice -> pass unmetered v=0 left=0 rate=1 window=1h
			peek 1/alice -> unmetered v=0 left=0 until=0s retry=0s
			deny 1/alice
			check 1/alice 2/alice id=denied as=denied -> block unmetered v=0 left=0 rate=1 window=1h | unmetered=no v=1
			check 1/alice 2/alice id=denied same=denied
			check 1/alice -> block unmetered v=0 left=0 rate=1 window=1h
			peek 1/alice -> unmetered v=0 left=0 until=0s retry=1h
			clear 1
			edit 1 mode=off
			check 1/alice 2/alice id=off as=off -> pass unmetered v=0 left=0 rate=1 window=1h | unmetered=no v=2
			check 1/alice 2/alice id=off same=off
			check 1/alice -> pass unmetered v=0 left=0 rate=1 window=1h
			peek 1/alice -> unmetered v=0 left=0 until=0s retry=0s
			edit 1 mode=enforce
			limit 1/alice 1 1h
			check 1/alice -> locked unmetered=no v=1
		`),
		"ADenialNamesItsOverride": denialNamesItsOverride,
		"AShadowTellsTheReasonsOfAnEnforcedZone": script(`
			zone 1 rate=1 window=1m lockout=1h mode=shadow
			zone 2 rate=0
			check 1/alice -> room
			check 1/alice -> lockout
			check 1/alice -> locked
			check 1/alice 2/x 1/bob -> locked | full | elsewhere // the bucket's reason stays
			deny 1/bob
			check 1/bob -> denied
		`),
		"ARetryIsToldTheReasonOfTheFirstAttempt": script(`
			zone 1 rate=0 window=1m lockout=1h
			zone 2 rate=5 window=1m
			zone 3 rate=5 window=1m
			deny 3/x
			check 2/alice 3/x id=denied as=denied -> elsewhere | denied
			check 2/alice 3/x id=denied same=denied
			check 1/alice 2/alice id=locked as=locked -> lockout | elsewhere
			check 1/alice 2/alice id=locked same=locked
		`),
		"APeekTellsTheReasonThatAnAttemptMeets": script(`
			zone 1 rate=1 window=1m lockout=1h
			peek 1/alice -> room
			check 1/alice -> room
			peek 1/alice -> lockout
			check 1/alice -> lockout
			peek 1/alice -> locked
			check 1/alice -> locked
			deny 1/alice
			peek 1/alice -> denied
			allow 1/alice
			peek 1/alice -> room
		`),
		"TheReasonsOfABatchAreThoseOfItsSequence": script(`
			zone 1 rate=1 window=1m lockout=1h
			zone 2 rate=1 window=1m
			check 1/alice -> room
			and 1/alice 2/x -> lockout | elsewhere
			and 1/alice 2/x -> locked | elsewhere
			and 2/x -> room
			and 1/alice 2/x -> locked | full
			and 2/x -> full
		`),
	}
}

func denialNamesItsOverride(t *testing.T, b subject) {
	denied := steps.Run(t, b, `
		zone 1 rate=0 lockout=1h key_kind=ip
		check 1/203.0.113.9 -> lockout
		deny 1/203.0.113.0/24
		check 1/203.0.113.9 as=network -> denied // comes before a lockout
		deny 1/203.0.113.9
		check 1/203.0.113.9 as=exact -> denied
	`)
	got, want := denied["exact"].Verdicts[0].OverrideID, b.peek(t, at(1, "203.0.113.9")).Override.ID
	if got != want || denied["network"].Verdicts[0].OverrideID == got {
		t.Errorf("denied by override %d, want %d and not that of the network", got, want)
	}
	steps.Run(t, b, `
		clear 1
		check 1/203.0.113.9 -> locked
	`)
}
