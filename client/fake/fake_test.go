package fake_test

import (
	"errors"
	"testing"
	"time"

	"velocityd/client/fake"
	"velocityd/service"
)

func alice() service.Check {
	return service.Check{Buckets: []service.Bucket{{ZoneID: 1, Key: "Alice"}}}
}

func TestALimitHoldsUntilItsWindowHasPassed(t *testing.T) {
	t.Parallel()
	s := fake.New(t, service.Zone{ID: 1, Rate: 2, Window: time.Minute, Keys: service.KeyRule{Kind: service.KeyUsername}})
	for attempt, blocked := range []bool{false, false, true} {
		if d, err := s.Check(t.Context(), alice()); err != nil || d.Blocked != blocked {
			t.Fatalf("attempt %d: %+v (%v), want blocked %t", attempt, d, err, blocked)
		}
	}
	s.Advance(time.Minute)
	d, err := s.Check(t.Context(), alice())
	if err != nil || d.Blocked {
		t.Fatalf("after the window: %+v (%v)", d, err)
	}
	if err := s.Report(t.Context(), service.Report{TxnID: d.TxnID(), Outcome: service.OutcomeSuccess}); err != nil {
		t.Fatal(err)
	}
	txns := s.Txns(service.Bucket{ZoneID: 1, Key: "alice"})
	if len(txns) != 4 || txns[3].Outcome != service.OutcomeSuccess {
		t.Errorf("recorded %+v", txns)
	}
}

func TestAServiceThatFailsCountsNothing(t *testing.T) {
	t.Parallel()
	s := fake.New(t, service.Zone{ID: 1, Rate: 1, Window: time.Minute})
	s.Fail(service.ErrBusy)
	if d, err := s.Check(t.Context(), alice()); !errors.Is(err, service.ErrBusy) {
		t.Errorf("got %+v (%v)", d, err)
	}
	if err := s.Report(t.Context(), service.Report{TxnID: 1, Outcome: service.OutcomeFailure}); !errors.Is(
		err, service.ErrBusy) {
		t.Errorf("report: %v", err)
	}
	s.Fail(nil)
	if d, err := s.Check(t.Context(), alice()); err != nil || d.Blocked {
		t.Errorf("afterwards: %+v (%v)", d, err)
	}
}

func TestFakeRefusesCallerMistakesLikeTheService(t *testing.T) {
	t.Parallel()
	s := fake.New(t, service.Zone{ID: 1, Rate: 1, Window: time.Minute})
	for _, mistake := range []struct {
		check service.Check
		want  error
	}{
		{service.Check{}, service.ErrInvalid},
		{service.Check{Buckets: []service.Bucket{{ZoneID: 9, Key: "alice"}}}, service.ErrNotFound},
	} {
		if _, err := s.Check(t.Context(), mistake.check); !errors.Is(err, mistake.want) {
			t.Errorf("%+v: %v, want %v", mistake.check, err, mistake.want)
		}
	}
}

func TestAnOverrideDeniesOneKey(t *testing.T) {
	t.Parallel()
	s := fake.New(t, service.Zone{ID: 1, Rate: 9, Window: time.Minute})
	s.Override(t, service.Override{ZoneID: 1, Key: "Alice", Action: service.OverrideDeny})
	if d, err := s.Check(t.Context(), alice()); err != nil || !d.Blocked || d.Verdicts[0].Reason != service.ReasonDenied {
		t.Errorf("got %+v (%v)", d, err)
	}
}
