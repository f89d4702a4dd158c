package servicetest

func zoneClaims() map[string]claim {
	return map[string]claim{
		"ZoneChangesTakeEffectAtTheNextCheck": script(`
			zone 1 rate=2
			2x check 1/alice -> pass
			check 1/alice -> block rate=2 left=0
			zone 1 rate=3 // grown: one more
			check 1/alice -> pass rate=3 left=0
			zone 1 rate=1 // shrunk below the number that counts
			check 1/alice -> block rate=1 left=0
			zone 1 rate=9 window=2h
			check 1/alice -> pass rate=9 window=2h left=5
			zone 1 rate=0
			check 1/alice -> block rate=0 window=1h left=0
			drop 1
			check 1/alice -> unknown
		`),
		"RateZeroAdmitsNothing": script(`
			zone 1 rate=0 window=90s
			2x check 1/alice -> block wait=90s left=0
		`),
		"DeletedZoneTakesItsOverridesAlong": script(`
			zone 1 rate=5
			zone 2 rate=5
			deny 1/alice
			deny 2/alice
			drop 1
			zone 1 rate=5
			check 1/alice -> pass
			check 2/alice -> block
		`),
		"DeletedZoneLeavesItsTxns": script(`
			zone 1 rate=1 counts=failures reset_on_success=true
			zone 2 rate=5
			check 1/alice 2/alice as=first -> pass
			check 1/alice -> block
			drop 1
			peek 1/alice -> unknown
			release 1/alice -> unknown
			report first success // the login is known all the same
			outcomes 1/alice -> success -
			outcomes 2/alice -> success
		`),
	}
}
