package client_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"reflect"
	"testing"
	"time"

	"velocityd/api"
	"velocityd/client"
	"velocityd/handlers"
	"velocityd/service"
	"velocityd/service/audit"
	"velocityd/service/memory"
	"velocityd/service/zonereport"
	"velocityd/tools/servicetest"
)

// The command line asks a service the same questions as a database.
var (
	_ handlers.Reader = (*client.Client)(nil)
	_ handlers.Writer = (*client.Client)(nil)
)

func TestClientKeepsTheContractOfAStore(t *testing.T) {
	t.Parallel()
	servicetest.Exercise(t, func(t *testing.T) servicetest.Subject {
		m := memory.New()
		return servicetest.Through(servicetest.InMemory(m), connect(t, serve(t, newHandler(m))))
	})
}

func TestClientKeepsTotals(t *testing.T) {
	t.Parallel()
	servicetest.ExerciseTotals(t, func(t *testing.T) servicetest.TotalsSubject {
		m := memory.New()
		return servicetest.TotalsThrough(m, connect(t, serve(t, newHandler(m))))
	})
}

// lone asks lone checks with an attempt id by Check, and reports by Report.
type lone struct{ *client.Client }

func (l lone) CheckAll(ctx context.Context, checks []service.Check) ([]service.Decision, error) {
	if len(checks) != 1 || checks[0].AttemptID == "" {
		return l.Client.CheckAll(ctx, checks)
	}
	d, err := l.Client.Check(ctx, checks[0])
	d.Err = err
	return []service.Decision{d}, nil
}

func (l lone) ReportAll(ctx context.Context, reports []service.Report) ([]error, error) {
	errs := make([]error, len(reports))
	for i, r := range reports {
		errs[i] = l.Client.Report(ctx, r)
	}
	return errs, nil
}

func TestLoneChecksAndReportsKeepStoreContract(t *testing.T) {
	t.Parallel()
	servicetest.ExerciseSome(t, func(t *testing.T) servicetest.Subject {
		m := memory.New()
		return servicetest.Through(servicetest.InMemory(m), lone{connect(t, serve(t, newHandler(m)))})
	}, []string{
		"RetriedCheckIsCountedOnce", "AttemptIDWithOtherBucketsIsAConflict", "RefusedCheckDoesNotUseItsAttemptID",
		"ParallelRetriesGetOneAnswer", "RetryInAnotherSpellingIsTheSameAttempt", "OutcomeSpeaksForTheWholeCheck",
		"OutcomeByAttemptIDSpeaksForTheWholeCheck", "OutcomeByAForgottenAttemptIDIsNotFound",
		"ReportsOfABatchAreTakenInOrder",
		"RacingReportsOfOneTxnAgreeOnOneOutcome",
	})
}

func TestClientKeepsTheContractOfZoneReports(t *testing.T) {
	t.Parallel()
	servicetest.ExerciseZoneReport(t, func(t *testing.T) servicetest.ZoneReportSubject {
		m := memory.New()
		c := connect(t, serve(t, newHandler(m)))
		return struct {
			servicetest.TotalsSubject
			zonereport.Store
		}{servicetest.TotalsThrough(m, c), c}
	})
}

func TestZonesComeBackAsTheyWereWritten(t *testing.T) {
	t.Parallel()
	m := memory.New()
	c := connect(t, serve(t, newHandler(m)))
	full := service.Zone{
		ID: 2, Description: "per <address> & more", Rate: 0, Window: 24 * time.Hour,
		Calendar: service.Calendar{Period: service.PeriodDay, Offset: 60, Anchor: 2}, Mode: service.ModeShadow,
		Counts:     service.CountsFailures,
		ReserveTTL: time.Minute, ResetOnSuccess: true, Concurrent: 3, RepeatSecret: service.RepeatFree,
		Lockout: time.Hour, LockoutFactor: 1.5, LockoutMax: 2 * time.Hour,
		LockoutDecay: 3 * time.Hour,
		Keys:         service.KeyRule{Kind: service.KeyIP, Form: service.KeyHMAC, IPv4Prefix: 24, IPv6Prefix: 56},
		OnFailure:    service.OnFailureAllow, RecordBlocked: 10, KeepDays: 800, Totals: true,
	}
	for i, zone := range []service.Zone{{ID: 1, Rate: 5, Window: time.Minute}, full} {
		wrote, err := c.PutZone(t.Context(), zone, service.Match{Absent: true}, "Zoë")
		want := zone.WithDefaults()
		want.Revision = 1
		read, readErr := c.Zone(t.Context(), zone.ID)
		if err != nil || readErr != nil || wrote != want || read != want {
			t.Errorf("wrote %+v, %v; read %+v, %v; want %+v", wrote, err, read, readErr, want)
		}
		if zones, err := c.Zones(t.Context()); err != nil || len(zones) != i+1 || zones[i] != want {
			t.Errorf("listed %+v, %v", zones, err)
		}
	}
	if audits := m.Audits(); len(audits) != 2 || audits[1].Principal != "Zoë" {
		t.Errorf("recorded %+v", audits)
	}
	if _, err := c.PutZone(t.Context(), full, service.Match{Revision: 9}, ""); !errors.Is(err, service.ErrPrecondition) {
		t.Errorf("another revision: %v", err)
	}
	if _, err := c.PutZone(t.Context(), full, service.Match{Absent: true}, ""); !errors.Is(err, service.ErrPrecondition) {
		t.Errorf("absent, and is there: %v", err)
	}
	if err := c.DeleteZone(t.Context(), 3, service.Match{Present: true}, ""); !errors.Is(err, service.ErrNotFound) {
		t.Errorf("present, and is not there: %v", err)
	}
	if err := c.DeleteZone(t.Context(), 2, service.Match{Revision: 1}, ""); err != nil {
		t.Error(err)
	}
	if _, err := c.Zone(t.Context(), 2); !errors.Is(err, service.ErrNotFound) {
		t.Errorf("deleted: %v", err)
	}
}

func TestOverridesComeBackAsTheyWereWritten(t *testing.T) {
	t.Parallel()
	m := memory.New()
	m.SetZone(t, service.Zone{ID: 1, Rate: 5, Window: time.Minute, Keys: service.KeyRule{Kind: service.KeyIP}})
	c := connect(t, serve(t, newHandler(m)))
	for _, o := range []service.Override{
		{
			ZoneID: 1, Key: "203.0.113.9", Action: service.OverrideLimit, Rate: 0, Window: service.Lasting(time.Minute),
			Reason: "a", CreatedBy: "b",
		},
		{
			ZoneID: 1, Prefix: netip.MustParsePrefix("2001:db8::/32"), Action: service.OverrideDeny,
			ExpiresAt: service.At(time.Date(2099, 1, 2, 3, 4, 5, 6000, time.UTC)),
		},
	} {
		made, err := c.AddOverride(t.Context(), o, "carol")
		if o.ID = made.ID; o.CreatedBy == "" {
			o.CreatedBy = "carol"
		}
		if err != nil || made != o || made.ID == 0 {
			t.Errorf("made %+v, %v; want %+v", made, err, o)
		}
		if _, err := c.AddOverride(t.Context(), o, ""); !errors.Is(err, service.ErrConflict) {
			t.Errorf("again: %v", err)
		}
		o.Reason = "changed"
		if set, err := c.SetOverride(t.Context(), o, ""); err != nil || set != o {
			t.Errorf("set %+v, %v; want %+v", set, err, o)
		}
		if read, err := c.Override(t.Context(), 1, o.ID); err != nil || read != o {
			t.Errorf("read %+v, %v; want %+v", read, err, o)
		}
	}
	all, err := c.Overrides(t.Context(), 1, 0, 2*api.MaxPage)
	if err != nil || len(all) != 2 {
		t.Fatalf("listed %+v, %v", all, err)
	}
	if err := c.DeleteOverride(t.Context(), 1, all[0].ID, ""); err != nil {
		t.Error(err)
	}
	if rest, err := c.Overrides(t.Context(), 1, 0, 1); err != nil || !reflect.DeepEqual(rest, all[1:]) {
		t.Errorf("left are %+v, %v", rest, err)
	}
}

func TestOverridesBeyondOnePageAreFetched(t *testing.T) {
	t.Parallel()
	m := memory.New()
	m.SetZone(t, service.Zone{ID: 1, Rate: 5, Window: time.Minute})
	for i := range api.MaxPage + 2 {
		servicetest.InMemory(m).SetOverride(
			t, service.Override{ZoneID: 1, Key: fmt.Sprint("k", i), Action: service.OverrideDeny})
	}
	c := connect(t, serve(t, newHandler(m)))
	for limit, want := range map[int]int{
		1: 1, api.MaxPage: api.MaxPage, api.MaxPage + 1: api.MaxPage + 1,
		5 * api.MaxPage: api.MaxPage + 2,
	} {
		all, err := c.Overrides(t.Context(), 1, 0, limit)
		if err != nil || len(all) != want {
			t.Errorf("limit %d: got %d, %v, want %d", limit, len(all), err, want)
		}
	}
}

func TestTxnsAndBucketsAreShownWithAnyKey(t *testing.T) {
	t.Parallel()
	m := memory.New()
	m.SetZone(t, service.Zone{ID: 1, Rate: 5, Window: time.Minute})
	c := connect(t, serve(t, newHandler(m)))
	for _, key := range []string{"alice", "a/b", "..", "100%", "?x=1#y", "é 🔑", "a+b", "%2F"} {
		check := one(key)
		d, err := c.Check(t.Context(), check)
		if err != nil {
			t.Fatal(err)
		}
		txn, err := c.Txn(t.Context(), d.TxnID())
		if err != nil || txn.Bucket.Key != key || !txn.Counted || len(txn.AttemptID) != 26 ||
			!txn.CreatedAt.Equal(d.CheckedAt.Time) {
			t.Errorf("%q: txn %+v, %v", key, txn, err)
		}
		peek, err := c.Peek(t.Context(), check.Buckets[0])
		if err != nil || peek.Bucket.Key != key || peek.Velocity != 1 || len(peek.Txns) != 1 || peek.Txns[0] != txn {
			t.Errorf("%q: peek %+v, %v", key, peek, err)
		}
		if err := c.Release(t.Context(), check.Buckets[0], "carol", "called us"); err != nil {
			t.Errorf("%q: %v", key, err)
		}
	}
	if _, err := c.Txn(t.Context(), 99); !errors.Is(err, service.ErrNotFound) {
		t.Errorf("no such txn: %v", err)
	}
}

// degraded is a store whose database is away.
type degraded struct{}

func (degraded) CheckAll(_ context.Context, call service.Call) ([]service.Decision, error) {
	checks := call.Checks
	decisions := make([]service.Decision, len(checks))
	for i, check := range checks {
		decisions[i] = service.Decision{Degraded: true}
		for _, b := range check.Buckets {
			v := service.Verdict{Bucket: b, Rate: 5, Window: service.Lasting(time.Minute), Velocity: 5}
			decisions[i].Verdicts = append(decisions[i].Verdicts, v)
		}
	}
	return decisions, nil
}

func TestDegradedAnswersComeBackAsTheyWereGiven(t *testing.T) {
	t.Parallel()
	c := connect(t, serve(t, handlers.New(handlers.Options{Limiter: service.NewLimiter(degraded{},
		service.LimiterOptions{Timeout: time.Minute})})))
	check := service.Check{Buckets: []service.Bucket{{ZoneID: 1, Key: "alice"}, {ZoneID: 2, Key: "192.0.2.1"}}}
	d, err := c.Check(t.Context(), check)
	all, allErr := c.CheckAll(t.Context(), []service.Check{check})
	want, _ := degraded{}.CheckAll(t.Context(), service.Call{Checks: []service.Check{check}})
	if err != nil || allErr != nil || fmt.Sprint(d, all[0]) != fmt.Sprint(want[0], want[0]) {
		t.Errorf("got %+v, %v and %+v, %v, want %+v", d, err, all, allErr, want[0])
	}
	if d.TxnID() != 0 || d.Verdicts[1].Remaining() != 0 {
		t.Errorf("it promises something: %+v", d)
	}
}

// TestExplanationComesBackAsTheStoreGaveIt converts the client's explanation once more: where no limit decided, the
// answer leaves out the zone's.
func TestExplanationComesBackAsTheStoreGaveIt(t *testing.T) {
	t.Parallel()
	m := memory.New()
	c := connect(t, serve(t, newHandler(m)))
	users := service.Zone{ID: 1, Rate: 1, Window: time.Minute, Lockout: time.Hour}
	for _, zone := range []service.Zone{users, {ID: 2, Rate: 9, Window: time.Minute}} {
		if _, err := c.PutZone(t.Context(), zone, service.Match{}, ""); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := c.AddOverride(t.Context(),
		service.Override{ZoneID: 1, Key: "bob", Action: service.OverrideDeny, Reason: "guessing"}, "ann"); err != nil {
		t.Fatal(err)
	}
	for _, key := range []string{"alice", "alice", "alice", "bob"} { // allowed, a lockout begins, locked, denied
		buckets := []service.Bucket{{ZoneID: 1, Key: key}, {ZoneID: 2, Key: "192.0.2.1"}}
		d, err := c.Check(t.Context(), service.Check{Buckets: buckets})
		if err != nil {
			t.Fatal(err)
		}
		for _, v := range d.Verdicts {
			want, err := m.Explain(t.Context(), v.TxnID)
			got, gotErr := c.Explain(t.Context(), v.TxnID)
			if err != nil || gotErr != nil || !sameJSON(got, want) {
				t.Errorf("txn %d:\ngot  %+v, %v\nwant %+v, %v", v.TxnID, got, gotErr, want, err)
			}
		}
	}
}

// sameJSON reports whether two values are the same in JSON.
func sameJSON(a, b any) bool {
	one, err := json.Marshal(a)
	other, otherErr := json.Marshal(b)
	return err == nil && otherErr == nil && bytes.Equal(one, other)
}

func TestClientKeepsTheContractOfTheAudit(t *testing.T) {
	t.Parallel()
	servicetest.ExerciseAudit(t, func(t *testing.T) servicetest.AuditSubject {
		m := memory.New()
		c := connect(t, serve(t, newHandler(m)))
		return struct {
			servicetest.Subject
			audit.Reader
		}{servicetest.Through(servicetest.InMemory(m), c), c}
	})
}
