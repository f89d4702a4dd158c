package telemetry_test

import (
	"context"
	"testing"
	"time"

	"velocityd/service"
)

func TestThePulseIsTheNumbersOfTheMetrics(t *testing.T) {
	t.Parallel()
	m := whole(t) // one check was allowed, with a rate of 1
	began, err := m.Pulse()
	if err != nil {
		t.Fatal(err)
	}
	if began.Version == "" || began.StartedAt.IsZero() || began.At.Before(began.StartedAt) || began.Ready || began.Waiting != 2 || began.Locked != nil ||
		began.NearLimit != 1 || began.Counts != (service.PulseCounts{Allowed: 1}) {
		t.Errorf("the pulse is %+v", began)
	}
	if allowed, blocked, undecided := m.Decided(); allowed != 1 || blocked+undecided != 0 {
		t.Errorf("decided are %d, %d, %d", allowed, blocked, undecided)
	}
	last := began.Durations[len(began.Durations)-1]
	if first := began.Durations[0]; first.UpTo != 500*time.Microsecond || last.UpTo != 0 || last.Calls != 1 || len(began.Durations) != 15 {
		t.Errorf("durations are %+v", began.Durations)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	go m.RunCensus(ctx, func(context.Context) ([]service.ZoneCensus, error) {
		return []service.ZoneCensus{{ZoneID: 1, Locked: 3}, {ZoneID: 2, Locked: 4}}, nil
	})
	eventually(t, "the locked buckets are counted", func() bool {
		p, err := m.Pulse()
		return err == nil && p.Locked != nil && *p.Locked == 7
	})
}
