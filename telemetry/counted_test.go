package telemetry_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"velocityd/service"
	"velocityd/service/memory"
	"velocityd/service/queue"
)

func TestDecisionsAreCountedByZoneAndReason(t *testing.T) {
	t.Parallel()
	m := newMetrics()
	verdict := func(zone int64, change func(*service.Verdict)) service.Verdict {
		v := service.Verdict{Bucket: service.Bucket{ZoneID: zone, Key: "k"}, Rate: 10, Velocity: 1}
		change(&v)
		return v
	}
	free := verdict(1, func(*service.Verdict) {})
	near := verdict(1, func(v *service.Verdict) { v.Velocity = 8 })
	shadow := verdict(2, func(v *service.Verdict) { v.WouldBlock, v.Reason = true, service.ReasonDenied })
	blocked := verdict(
		3, func(v *service.Verdict) { v.Blocked, v.WouldBlock, v.Reason = true, true, service.ReasonLockout })
	bySetting := verdict(3, func(v *service.Verdict) { v.Blocked, v.WouldBlock = true, true })
	store := counted(m, storeFunc(func(context.Context, []service.Check) ([]service.Decision, error) {
		return []service.Decision{
			{Verdicts: []service.Verdict{free}},
			{Verdicts: []service.Verdict{near, shadow}, WouldBlock: true},
			{Verdicts: []service.Verdict{free, blocked}, Blocked: true, WouldBlock: true},
			{Err: service.ErrNotFound},
			{Err: service.ErrConflict},
			{Verdicts: []service.Verdict{blocked}, Blocked: true, Degraded: true},
			{Verdicts: []service.Verdict{bySetting}, Blocked: true, Degraded: true},
			{Verdicts: []service.Verdict{free}, Degraded: true},
		}, nil
	}))
	ask(t, store, slices.Repeat([]service.Check{check(service.Bucket{ZoneID: 1, Key: "k"})}, 8)...)
	wantLines(
		t, scrape(t, m),
		`velocityd_checks_total{reason="",result="allowed",zone="1"} 2`,
		`velocityd_checks_total{reason="elsewhere",result="blocked",zone="1"} 1`,
		`velocityd_checks_total{reason="denied",result="would_block",zone="2"} 1`,
		`velocityd_checks_total{reason="lockout",result="blocked",zone="3"} 1`,
		`velocityd_near_limit_total{zone="1"} 1`,
		`velocityd_decisions_total{result="allowed"} 1`,
		`velocityd_decisions_total{result="would_block"} 1`,
		`velocityd_decisions_total{result="blocked"} 1`,
		`velocityd_degraded_total{answer="allowed",zone="1"} 1`,
		`velocityd_degraded_total{answer="blocked",zone="3"} 1`,
		`velocityd_degraded_total{answer="blocked_unasked",zone="3"} 1`,
		`velocityd_refused_total{reason="unknown_zone"} 1`,
		`velocityd_refused_total{reason="conflict"} 1`,
		`velocityd_check_duration_seconds_count 1`,
	)
}

func TestUndecidedChecksAreCountedByReason(t *testing.T) {
	t.Parallel()
	held := service.NewBusyError(0, "held")
	held.Held = true
	for want, err := range map[string]error{
		`velocityd_busy_total{reason="queue"} 2`: service.NewBusyError(time.Second, "queue is full"),
		`velocityd_busy_total{reason="held"} 2`:  fmt.Errorf("check: %w", held),
		`velocityd_busy_total{reason="deadline"} 2`: fmt.Errorf("%w: left the queue: %w", service.ErrBusy,
			context.DeadlineExceeded),
		`velocityd_busy_total{reason="no_keys"} 2`:  fmt.Errorf("zone 1: %w", service.ErrNoKeys),
		`velocityd_busy_total{reason="database"} 2`: fmt.Errorf("%w: connection refused", service.ErrBusy),
		`velocityd_undecided_total{reason="deadline"} 2`: fmt.Errorf("%w: %w", service.ErrUndecided,
			context.DeadlineExceeded),
		`velocityd_undecided_total{reason="connection"} 2`:   fmt.Errorf("%w: EOF", service.ErrUndecided),
		`velocityd_failed_total{reason="forbidden"} 2`:       service.ErrForbidden,
		`velocityd_failed_total{reason="internal"} 2`:        errors.New("no such column"),
		`velocityd_refused_total{reason="invalid"} 2`:        service.ErrInvalid,
		`velocityd_batch_size_bucket{le="2"} 1`:              service.ErrBusy,
		`velocityd_batch_duration_seconds_count 1`:           service.ErrBusy,
		`velocityd_check_duration_seconds_bucket{le="10"} 1`: service.ErrBusy,
	} {
		m := newMetrics()
		store := storeFunc(func(context.Context, []service.Check) ([]service.Decision, error) { return nil, err })
		straight := queue.NewCoalescer(store, queue.CoalescerOptions{
			IsStraight: true, Observe: queue.CoalescerObserver{Asked: m.CountBatch},
		})
		two := slices.Repeat([]service.Check{check(service.Bucket{ZoneID: 1, Key: "k"})}, 2)
		if _, got := counted(m, straight).CheckAll(t.Context(), two); !errors.Is(got, err) {
			t.Errorf("got %v, want the store's error", got)
		}
		wantLines(t, scrape(t, m), want)
	}
}

func TestUnaskedRefusalsAreCountedByReason(t *testing.T) {
	t.Parallel()
	m := newMetrics()
	for _, code := range []string{
		"unauthenticated", "missing_scope", "foreign_origin", "invalid_request", "payload_too_large",
		"a code to come",
	} {
		m.CountRefusal(code)
	}
	wantLines(
		t, scrape(t, m),
		`velocityd_refused_total{reason="unauthenticated"} 1`, `velocityd_refused_total{reason="scope"} 1`,
		`velocityd_refused_total{reason="foreign_origin"} 1`, `velocityd_refused_total{reason="unreadable"} 3`,
	)
}

func TestChecksAreCountedAsTheirCallersAskThem(t *testing.T) {
	t.Parallel()
	memory := memory.New()
	memory.SetZone(t, service.Zone{ID: 1, Rate: 5, Window: time.Hour, Keys: service.KeyRule{Form: service.KeyHMAC}})
	memory.SetZone(t, service.Zone{ID: 2, Rate: 5, Window: time.Hour, Keys: service.KeyRule{Kind: service.KeyIP}})
	var keys []service.SecretKey
	for _, id := range []string{"2026-01", "2026-02"} {
		key, err := service.ParseSecretKey(id, strings.Repeat("5a", 32))
		if err != nil {
			t.Fatal(err)
		}
		keys = append(keys, key)
	}
	m, ring := newMetrics(), new(service.Keyring)
	store := service.NewLimiter(memory, service.LimiterOptions{
		Zones: memory, Keys: ring, Timeout: time.Minute, Observe: m.CountChecks,
	})
	hidden := check(service.Bucket{ZoneID: 1, Key: "alice"})
	if _, err := store.CheckAll(t.Context(), []service.Check{hidden}); err != nil {
		t.Fatal(err)
	}
	if err := ring.Replace(keys); err != nil {
		t.Fatal(err)
	}
	ask(t, store, hidden, check(service.Bucket{ZoneID: 2, Key: "no address"}))
	wantLines(
		t, scrape(t, m),
		`velocityd_busy_total{reason="no_keys"} 1`, `velocityd_refused_total{reason="invalid"} 1`,
		`velocityd_checks_total{reason="",result="allowed",zone="1"} 1`, // and not one for each pseudonym
		`velocityd_decisions_total{result="allowed"} 1`, `velocityd_check_duration_seconds_count 2`,
	)
}

// outcomes answers reports as a test wants.
type outcomes func() ([]error, error)

func (f outcomes) ReportAll(context.Context, []service.Report) ([]error, error) { return f() }

func TestOutcomesAreCounted(t *testing.T) {
	t.Parallel()
	m := newMetrics()
	reports := []service.Report{
		{TxnID: 1, Outcome: service.OutcomeSuccess},
		{TxnID: 2, Outcome: service.OutcomeFailure},
		{TxnID: 3, Outcome: service.OutcomeFailure},
	}
	store := m.Outcomes(
		outcomes(func() ([]error, error) { return []error{nil, service.ErrNotFound, service.ErrConflict}, nil }))
	if _, err := store.ReportAll(t.Context(), reports); err != nil {
		t.Fatal(err)
	}
	store = m.Outcomes(outcomes(func() ([]error, error) { return nil, service.ErrBusy }))
	if _, err := store.ReportAll(t.Context(), reports[:1]); !errors.Is(err, service.ErrBusy) {
		t.Fatal(err)
	}
	wantLines(
		t, scrape(t, m),
		`velocityd_outcomes_total{outcome="success",result="recorded"} 1`,
		`velocityd_outcomes_total{outcome="success",result="failed"} 1`,
		`velocityd_outcomes_total{outcome="failure",result="unknown"} 1`,
		`velocityd_outcomes_total{outcome="failure",result="conflict"} 1`,
	)
}
