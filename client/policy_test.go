package client_test

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"testing"
	"time"

	"velocityd/client"
	"velocityd/service"
	"velocityd/service/memory"
)

// observations are those that an Observer has heard of.
type observations struct{ list []client.Observation }

func (o *observations) Observe(_ context.Context, seen client.Observation) {
	o.list = append(o.list, seen)
}

func TestAPolicyDecidesWithoutTheService(t *testing.T) {
	t.Parallel()
	failing := problem(401, "unauthenticated")
	for name, test := range map[string]struct {
		policy  client.OnError
		blocked bool
	}{
		"open": {client.Allow, false}, "closed": {client.Deny, true},
		"by the user": {func(_ context.Context, c service.Check, err error) bool {
			return c.Buckets[0].Key == "bob" && err != nil
		}, true},
	} {
		seen := &observations{}
		c := connect(t, serve(t, failing), client.WithOnError(test.policy), client.WithObserver(seen))
		d, err := c.Check(t.Context(), one("alice"))
		if err != nil || d.Blocked != test.blocked || !d.Degraded || d.TxnID() != 0 || (d.RetryAfter() > 0) != test.blocked {
			t.Errorf("%s: got %+v, %v", name, d, err)
		}
		if len(d.Verdicts) != 1 || d.Verdicts[0].Bucket != one("alice").Buckets[0] || d.Verdicts[0].Remaining() != 0 {
			t.Errorf("%s: verdicts %+v", name, d.Verdicts)
		}
		if o := seen.list; len(o) != 1 || o[0].Class != "unauthenticated" || !o[0].Degraded || o[0].Action != "check" ||
			o[0].Duration <= 0 {
			t.Errorf("%s: observed %+v", name, o)
		}
	}
}

func TestPolicyDoesNotCoverErrorsOfCallers(t *testing.T) {
	t.Parallel()
	gone, leave := context.WithCancel(t.Context())
	leave()
	for name, test := range map[string]struct {
		ctx    context.Context
		check  service.Check
		answer http.HandlerFunc
		class  string
	}{
		"a key that no account has": {t.Context(), one("a\x00b"), problem(503, "busy"), "invalid_request"},
		"refused by the service":    {t.Context(), one("alice"), problem(400, "invalid_request"), "invalid_request"},
		"another's id":              {t.Context(), one("alice"), problem(409, "conflict"), "conflict"},
		"a caller that left":        {gone, one("alice"), problem(503, "busy"), "canceled"},
	} {
		seen := &observations{}
		c := connect(t, serve(t, test.answer), client.WithOnError(client.Allow), client.WithObserver(seen))
		if d, err := c.Check(test.ctx, test.check); err == nil || d.Degraded {
			t.Errorf("%s: got %+v, %v", name, d, err)
		}
		if len(seen.list) != 1 || seen.list[0].Class != test.class || seen.list[0].Degraded {
			t.Errorf("%s: observed %+v", name, seen.list)
		}
	}
}

func TestAStormOfFailuresIsNotAskedAgain(t *testing.T) {
	t.Parallel()
	m := memory.New()
	m.SetZone(t, service.Zone{ID: 1, Rate: 5000, Window: time.Hour})
	f := &faults{next: newHandler(m), list: slices.Repeat([]http.HandlerFunc{problem(503, "busy")}, 110)}
	c := connect(t, serve(t, f), client.WithPause((&pauses{}).pause))
	if _, err := c.Check(t.Context(), one("alice")); !errors.Is(err, service.ErrBusy) || f.asked != 101 {
		t.Fatalf("after %d tries: %v", f.asked, err)
	}
	for range 9 {
		if _, err := c.Check(t.Context(), one("alice")); !errors.Is(err, service.ErrBusy) {
			t.Errorf("while the budget is spent: %v", err)
		}
	}
	if f.asked != 110 {
		t.Errorf("asked %d times, want each check once", f.asked)
	}
	for range 5 {
		if _, err := c.Check(t.Context(), one("alice")); err != nil {
			t.Fatal(err)
		}
	}
	f.list = []http.HandlerFunc{problem(503, "busy")}
	for range 2 { // five successes pay for one try again, and its success pays it back
		f.list = append(f.list[:0], problem(503, "busy"))
		if _, err := c.Check(t.Context(), one("alice")); err != nil {
			t.Error(err)
		}
	}
}
