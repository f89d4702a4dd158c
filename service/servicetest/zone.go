package servicetest

import (
	"context"
	"errors"
	"testing"
	"time"

	"velocityd/service"
)

func zoneClaims() map[string]claim {
	return map[string]claim{
		"ZoneChangesTakeEffectAtTheNextCheck": zoneChangesTakeEffectAtTheNextCheck,
		"RateZeroAdmitsNothing":               rateZeroAdmitsNothing,
		"DeletedZoneTakesItsOverridesAlong":   deletedZoneTakesItsOverridesAlong,
		"DeletedZoneLeavesItsTxns":            deletedZoneLeavesItsTxns,
	}
}

func zoneChangesTakeEffectAtTheNextCheck(t *testing.T, b subject) {
	b.zone(t, 1, 2, time.Hour)
	alice := at(1, "alice")
	b.check(t, alice)
	b.check(t, alice)
	for _, step := range []struct {
		rate    int
		window  time.Duration
		blocked bool
	}{
		{2, time.Hour, true},
		{3, time.Hour, false}, // grown: one more
		{1, time.Hour, true},  // shrunk below what counts
		{9, 2 * time.Hour, false},
		{0, time.Hour, true},
	} {
		b.zone(t, 1, step.rate, step.window)
		d := b.check(t, alice)
		if v := d.Verdicts[0]; d.Blocked != step.blocked || v.Rate != step.rate || v.Window.Duration != step.window || v.Remaining() < 0 {
			t.Errorf("step %+v: got %+v", step, d)
		}
	}
	b.DeleteZone(t, 1)
	if _, err := b.ask(context.Background(), one(1, "alice")); !errors.Is(err, service.ErrNotFound) {
		t.Errorf("deleted zone: %v, want ErrNotFound", err)
	}
}

func rateZeroAdmitsNothing(t *testing.T, b subject) {
	b.zone(t, 1, 0, 90*time.Second)
	for range 2 {
		d := b.check(t, at(1, "alice"))
		if !d.Blocked || d.RetryAfter() != 90*time.Second || d.Verdicts[0].Remaining() != 0 {
			t.Errorf("rate 0: %+v", d)
		}
	}
}

func deletedZoneTakesItsOverridesAlong(t *testing.T, b subject) {
	b.zone(t, 1, 5, time.Hour)
	b.zone(t, 2, 5, time.Hour)
	for id := range int64(2) {
		b.SetOverride(t, deny(id+1, "alice"))
	}
	b.DeleteZone(t, 1)
	b.zone(t, 1, 5, time.Hour)
	if d := b.check(t, at(1, "alice")); d.Blocked {
		t.Error("an override survived its zone")
	}
	if d := b.check(t, at(2, "alice")); !d.Blocked {
		t.Error("an override went with another zone")
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
