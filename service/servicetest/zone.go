package servicetest

import (
	"errors"
	"testing"
	"time"

	"velocityd/service"
)

func zoneClaims() map[string]claim {
	return map[string]claim{
		"ZoneChangesTakeEffectAtTheNextCheck": script(`
			zone 1 rate=2
			2x check 1/alice -> pass
			check 1/alice -> block rate=2 left=0
			zone 1 rate=3 // grown: one more
			check 1/alice -> pass rate=3 left=0
			zone 1 rate=1 // shrunk below what counts
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
		"DeletedZoneLeavesItsTxns": deletedZoneLeavesItsTxns,
	}
}

func deletedZoneLeavesItsTxns(t *testing.T, b subject) {
	b.set(t, service.Zone{ID: 1, Rate: 1, Window: time.Hour, Counts: service.CountsFailures, ResetOnSuccess: true})
	b.zone(t, 2, 5, time.Hour)
	d := b.check(t, at(1, "alice"), at(2, "alice"))
	b.check(t, at(1, "alice"))
	b.DeleteZone(t, 1)
	if txns := b.Txns(t, at(1, "alice")); len(txns) != 2 {
		t.Fatalf("a deleted zone left %+v, want its 2 txns", txns)
	}
	if _, err := b.Peek(t.Context(), at(1, "alice")); !errors.Is(err, service.ErrNotFound) {
		t.Errorf("peek into a deleted zone: %v, want ErrNotFound", err)
	}
	if err := b.Release(t.Context(), at(1, "alice"), "exercise", "deleted"); !errors.Is(err, service.ErrNotFound) {
		t.Errorf("release in a deleted zone: %v, want ErrNotFound", err)
	}
	// The login is known all the same, and nothing says any more what it counts.
	b.wantReport(t, d.TxnID(), service.OutcomeSuccess, nil)
	txns := b.Txns(t, at(1, "alice"))
	if txns[0].Outcome != service.OutcomeSuccess || b.Txns(t, at(2, "alice"))[0].Outcome != service.OutcomeSuccess {
		t.Errorf("the outcome of a check with a deleted zone is not recorded: %+v", txns)
	}
}
